"""Intake: records are queued once and in order, with back-pressure, also when Faust drops fetches."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from streams.billing.prices import Prices
from streams.engine import merge
from streams.engine.fatal import AccidentError
from streams.engine.intake import MAX_READ_AGAIN, Intake
from streams.engine.partitions import NO_GENERATION
from streams.engine.ports import Fetch
from streams.engine.prices import PriceReader
from streams.engine.shard import INPUTS, Phase, Shard
from streams.engine.tasks import cancel_and_wait
from streams.limits import HOUR_MS
from streams.rules.context import Switches
from tests.unit.engine.fakes import FakeAdmin, FakeClock, FakeConsumer, FakeKafka, FakeReader, Written, settle
from topics.catalogue import COMMANDS, HEARTBEATS, PRICES

if TYPE_CHECKING:
    from streams.engine.merge import Record

GENERATION = 3
HEARTBEATS_TP = (f"dev.{HEARTBEATS.name}", 0)
PRICE = b'{"profile":"dedicated.h100.1x","price":"1","currency":"JPY"}'


def stand_in(**attributes: Any) -> Any:
    return SimpleNamespace(**attributes)


class Taking:
    """Intake for one shard of partition 0, active in generation 3."""

    def __init__(self) -> None:
        self.consumer, self.kafka, self.work = FakeConsumer(), FakeKafka(), asyncio.Event()
        self.shard = Shard(
            0, partitions=1, prices=Prices(), switches=Switches(), retention_ms=HOUR_MS, stall_timeout_s=2.0
        )
        self.shard.start({HEARTBEATS.name: 0})
        shards = {0: self.shard}
        self.partitions = stand_in(shards=shards, generation=GENERATION, working=lambda: list(shards))
        self.reader = FakeReader(self.kafka, ("dev.croesus.prices", 0))
        self.prices = PriceReader(self.reader, FakeAdmin(self.kafka), FakeClock(), "JPY")
        self.intake = Intake(
            self.partitions,
            stand_in(asked=7),
            self.consumer,
            self.prices,
            inputs={f"dev.{topic}": topic for topic in INPUTS},
            work=self.work,
        )

    def feed(self, start: int, end: int, records: int = 0, generation: int = GENERATION) -> None:
        """Feed heartbeats of [start, end), of which the first `records` are no markers."""
        read: list[Record] = [Written(start + at, 1_000, None, b"{}") for at in range(records)]
        self.intake.feed(HEARTBEATS_TP, Fetch(read, start, end, generation))

    async def feed_and_seek(self, start: int, end: int) -> None:
        self.feed(start, end)
        await settle()

    @property
    def fetched(self) -> int:
        return self.shard.merge.fetched(HEARTBEATS.name)


@pytest.fixture
async def taking() -> Taking:
    return Taking()


async def test_a_fetch_is_queued_with_the_number_of_requests_sent_before(taking: Taking) -> None:
    taking.feed(0, 3, records=2)
    (batch,) = taking.shard.merge.queues[HEARTBEATS.name].batches
    assert (taking.fetched, len(batch.records), batch.asked) == (3, 2, 7)
    assert taking.work.is_set()


@pytest.mark.parametrize("why", ["an earlier generation", "between assignments", "another partition", "suspended"])
async def test_a_fetch_of_an_earlier_generation_is_discarded(taking: Taking, why: str) -> None:
    match why:
        case "an earlier generation":
            taking.feed(0, 3, generation=GENERATION - 1)
        case "between assignments":
            taking.partitions.generation = NO_GENERATION
            taking.feed(0, 3)
        case "another partition":
            taking.intake.feed((HEARTBEATS_TP[0], 1), Fetch([], 0, 3, GENERATION))
        case _:
            taking.shard.suspend()
            assert taking.shard.phase is Phase.SUSPENDED
            taking.feed(0, 3)
    assert (taking.fetched, taking.work.is_set(), taking.consumer.sought) == (0, False, [])


# Back-pressure


async def test_a_full_queue_is_paused_until_it_is_half_empty(taking: Taking, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge, "MAX_QUEUED_RECORDS", 4)
    taking.feed(0, 4, records=4)
    assert taking.consumer.paused == set()
    taking.feed(4, 5, records=1)
    assert taking.consumer.paused == {HEARTBEATS_TP}
    taking.feed(5, 6, records=1)  # was fetched before
    queue = taking.shard.merge.queues[HEARTBEATS.name]
    for size, paused in ((4, {HEARTBEATS_TP}), (2, {HEARTBEATS_TP}), (1, set())):
        queue.size = size
        taking.intake.resume(taking.shard)
        assert taking.consumer.paused == paused


async def test_large_records_fill_a_queue_too(taking: Taking, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge, "MAX_QUEUED_BYTES", 4)
    taking.feed(0, 3, records=3)  # 2 bytes each
    assert taking.consumer.paused == {HEARTBEATS_TP}
    taking.shard.merge.queues[HEARTBEATS.name].size_bytes = 1
    taking.intake.resume(taking.shard)
    assert taking.consumer.paused == set()


async def test_an_assignment_clears_the_paused_partitions(taking: Taking, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge, "MAX_QUEUED_RECORDS", 4)
    taking.feed(0, 5, records=5)
    taking.intake.reset()
    taking.consumer.paused.clear()
    taking.shard.merge.queues[HEARTBEATS.name].size = 0
    taking.intake.resume(taking.shard)  # FakeConsumer fails where nothing is paused


# Start


async def test_reading_starts_at_the_offsets_of_the_shards(taking: Taking) -> None:
    taking.shard.start({HEARTBEATS.name: 5, COMMANDS.name: 2})
    taking.prices.position = 9
    await taking.intake.start()
    (sought,) = taking.consumer.sought
    expected = dict.fromkeys([(f"dev.{topic}", 0) for topic in INPUTS], 0)
    assert sought == expected | {HEARTBEATS_TP: 5, (f"dev.{COMMANDS.name}", 0): 2}
    assert taking.shard.merge.fetched(PRICES.name) == 9


async def test_a_worker_without_partitions_seeks_nothing(taking: Taking) -> None:
    taking.partitions.shards.clear()
    await taking.intake.start()
    assert taking.consumer.sought == []


# Gaps


async def test_missing_records_are_read_again(taking: Taking) -> None:
    await taking.feed_and_seek(0, 10)
    await taking.feed_and_seek(20, 30)
    assert (taking.fetched, taking.consumer.sought) == (10, [{HEARTBEATS_TP: 10}])
    await taking.feed_and_seek(10, 20)
    await taking.feed_and_seek(20, 30)
    assert (taking.fetched, len(taking.consumer.sought)) == (30, 1)


async def test_a_fetch_from_before_the_seek_causes_no_second_seek(taking: Taking) -> None:
    taking.feed(0, 10)
    for _ in range(3 * MAX_READ_AGAIN):
        taking.feed(20, 30)
    await taking.feed_and_seek(20, 30)
    assert len(taking.consumer.sought) == 1


async def test_records_that_stay_missing_are_an_error(taking: Taking) -> None:
    await taking.feed_and_seek(0, 10)
    for _ in range(MAX_READ_AGAIN):
        await taking.feed_and_seek(20, 30)
    with pytest.raises(AccidentError, match="read from offset 20, but 10 is next"):
        taking.feed(20, 30)
    assert len(taking.consumer.sought) == MAX_READ_AGAIN


async def test_each_gap_is_counted_separately(taking: Taking) -> None:
    for lost in range(2 * MAX_READ_AGAIN):
        await taking.feed_and_seek(2 * lost + 1, 2 * lost + 2)
        await taking.feed_and_seek(2 * lost, 2 * lost + 2)
    assert taking.fetched == 4 * MAX_READ_AGAIN


async def test_a_seek_that_fails_during_a_rebalance_is_no_error(taking: Taking) -> None:
    def revoked() -> None:
        taking.partitions.generation = NO_GENERATION
        msg = "not assigned"
        raise RuntimeError(msg)

    taking.consumer.on_seek = revoked
    await taking.feed_and_seek(20, 30)
    taking.partitions.generation, taking.consumer.on_seek = GENERATION, lambda: None
    await taking.feed_and_seek(20, 30)
    assert taking.consumer.sought == [{HEARTBEATS_TP: 0}] * 2


# Prices


async def test_prices_are_followed(taking: Taking) -> None:
    following = asyncio.create_task(taking.intake.follow_prices())
    await settle()
    assert not taking.work.is_set()
    taking.kafka.logs[taking.reader.partition].append(Written(0, 1_000, b"dedicated.h100.1x", PRICE))
    taking.reader.more.set()
    await settle()
    assert taking.work.is_set()
    assert taking.shard.merge.fetched(PRICES.name) == 1
    assert list(taking.prices.prices.history) == ["dedicated.h100.1x"]
    await cancel_and_wait([following])
