"""The engine as Faust drives it, on a cluster in memory: from the assignment of a partition to its next owner."""

from __future__ import annotations

import asyncio
import gc
import json
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from streams.engine import merge
from streams.engine import shard as shards
from streams.engine.engine import Engine
from streams.engine.fatal import Accident, AccidentError
from streams.engine.ports import Fetch
from streams.engine.position import TABLE
from streams.engine.shard import INPUTS, Phase
from streams.engine.table import TABLES
from streams.settings import Settings
from tests.unit.engine import fakes
from tests.unit.engine.fakes import FakeClock, FakeConsumer, FakeKafka, Written, process_end, settle
from topics.catalogue import CLOCK, COMMANDS, DEAD_LETTERS, HEARTBEATS, PRICES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streams.engine.merge import Record
    from streams.engine.shard import Commit, Shard

ENVIRON = {"OBOL_PARTITIONS": "1", "OBOL_NAMESPACE": "dev", "OBOL_CLOCK": "log", "OBOL_ADVERTISED_URL": "http://a:1"}
HEARTBEATS_TP = (f"dev.{HEARTBEATS.name}", 0)
COMMANDS_IN = (f"dev.{COMMANDS.name}", 0)
LETTERS = (f"dev.{DEAD_LETTERS.name}", 0)
POSITIONS = (f"dev.obol-{TABLE}-changelog", 0)


class FakeWorker:
    """An engine, and a replacement for Faust: it reads the logs of the cluster and passes fetches to the engine."""

    def __init__(self, kafka: FakeKafka, clock: FakeClock) -> None:
        self.kafka, self.clock, self.consumer = kafka, clock, FakeConsumer()
        self.engine = Engine(
            Settings.from_env(ENVIRON),
            owner=lambda partition: f"http://owner-of-{partition}",
            consumer=self.consumer,
            kafka=kafka,
            clock=clock,
        )
        self.committed: list[tuple[int, dict[str, int], float]] = []
        self.engine.on_committed.append(self.note)

    def note(self, shard: Shard, commit: Commit, seconds: float) -> None:
        self.committed.append((shard.partition, commit.offsets, seconds))

    def message(self, partition: tuple[str, int], start: int, generation: int) -> Any:
        log = self.kafka.logs[partition]
        records: list[Record] = [record for record in log[start:] if record.timestamp >= 0]
        fetch = Fetch(records, start, len(log), generation)
        return SimpleNamespace(topic=partition[0], partition=partition[1], generation_id=generation, value=fetch)

    async def take_over(self, generation: int) -> None:
        """Be assigned partition 0, restore what is not in memory, and work."""
        await self.engine.on_assigned([0], generation)
        for table in TABLES:
            changelog = (self.engine.changelog(table), 0)
            known = self.engine.restored_to(*changelog)
            if self.kafka.logs[changelog]:
                self.engine.restore(self.message(changelog, known + 1, generation))
        await self.engine.activate(generation)

    async def read_beats(self, start: int, generation: int) -> None:
        """Feed the heartbeats from `start` on, and advance the clock until they are committed."""
        self.engine.feed(self.message(HEARTBEATS_TP, start, generation))
        await self.clock.advance(1.0)


@pytest.fixture(autouse=True)
def _interpreter_as_before() -> Iterator[None]:
    """The engine tunes the interpreter that it runs in."""
    before, thresholds = sys.getswitchinterval(), gc.get_threshold()
    yield
    sys.setswitchinterval(before)
    gc.set_threshold(*thresholds)
    gc.unfreeze()
    gc.enable()


@pytest.fixture
def kafka() -> FakeKafka:
    made = FakeKafka()
    made.logs[HEARTBEATS_TP] = [Written(at, 1_000 + at, None, b"{") for at in range(3)]
    return made


async def test_invalid_heartbeats_become_dead_letters_in_one_commit(kafka: FakeKafka) -> None:
    worker = FakeWorker(kafka, FakeClock())
    await worker.engine.start()
    await worker.take_over(1)
    await worker.read_beats(0, 1)
    assert [json.loads(record.value or b"")["offset"] for record in kafka.records(LETTERS)] == [0, 1, 2]
    assert kafka.offsets == {HEARTBEATS_TP: 3}
    assert worker.committed == [(0, {HEARTBEATS.name: 3}, 0.0)]
    assert worker.engine.records_applied == 3
    assert worker.engine.restored_to(*POSITIONS) == 1
    await worker.engine.stop()
    assert worker.engine.has_committed_all


async def test_the_next_owner_continues_and_the_previous_one_is_fenced(kafka: FakeKafka) -> None:
    clock = FakeClock()
    first, second = FakeWorker(kafka, clock), FakeWorker(kafka, clock)
    await first.engine.start()
    await first.take_over(1)
    await first.read_beats(0, 1)
    await second.engine.start()
    await second.take_over(2)
    shard = second.engine.by_partition[0]
    assert (shard.phase, shard.position.as_of) == (Phase.WORKING, 1_002)
    (sought,) = second.consumer.sought
    assert sought == dict.fromkeys([(f"dev.{topic}", 0) for topic in INPUTS], 0) | {HEARTBEATS_TP: 3}

    kafka.logs[HEARTBEATS_TP] += [Written(at, 1_000 + at, None, b"{") for at in (3, 4)]
    # The previous owner was suspended, and still has the partition.
    first.engine.feed(first.message(HEARTBEATS_TP, 3, 1))
    await settle()
    with process_end() as ended:
        await first.engine.on_revoked()
    assert ended[0].args == ("partition 0 was taken over by another worker", Accident.FENCED)
    assert kafka.offsets == {HEARTBEATS_TP: 3}

    await second.read_beats(3, 2)
    assert [json.loads(record.value or b"")["offset"] for record in kafka.records(LETTERS)] == [0, 1, 2, 3, 4]
    assert kafka.offsets == {HEARTBEATS_TP: 5}
    await second.engine.stop()


async def test_a_rebalance_that_keeps_the_partition_loses_and_repeats_nothing(kafka: FakeKafka) -> None:
    worker = FakeWorker(kafka, FakeClock())
    await worker.engine.start()
    await worker.take_over(1)
    worker.engine.feed(worker.message(HEARTBEATS_TP, 0, 1))
    await settle()
    await worker.engine.on_revoked()
    assert kafka.offsets == {HEARTBEATS_TP: 3}
    kafka.logs[HEARTBEATS_TP].append(Written(3, 1_003, None, b"{"))
    await worker.read_beats(3, 1)  # was read before the revocation
    await worker.take_over(2)
    assert kafka.offsets == {HEARTBEATS_TP: 3}
    await worker.read_beats(3, 2)
    assert [json.loads(record.value or b"")["offset"] for record in kafka.records(LETTERS)] == [0, 1, 2, 3]
    assert worker.engine.by_partition[0].restored_rows == 0
    await worker.engine.stop()


async def test_a_queue_that_was_full_is_read_again_after_a_rebalance(
    kafka: FakeKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merge, "MAX_QUEUED_RECORDS", 2)
    worker = FakeWorker(kafka, FakeClock())
    await worker.engine.start()
    await worker.take_over(1)
    worker.engine.feed(worker.message(HEARTBEATS_TP, 0, 1))
    assert worker.consumer.paused == {HEARTBEATS_TP}
    await worker.engine.on_revoked()
    worker.consumer.paused.clear()  # as Faust does; to resume what is not paused is an error
    await worker.take_over(2)
    kafka.logs[COMMANDS_IN].append(Written(0, -1))
    worker.engine.feed(worker.message(COMMANDS_IN, 0, 2))
    await settle()
    await worker.read_beats(0, 2)
    assert len(kafka.records(LETTERS)) == 3
    await worker.engine.stop()


async def test_a_full_shard_continues_after_its_commit(kafka: FakeKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "MAX_UNCOMMITTED", 1)
    worker = FakeWorker(kafka, FakeClock())
    await worker.engine.start()
    await worker.take_over(1)
    heartbeats = kafka.logs.pop(HEARTBEATS_TP)
    for heartbeat in heartbeats:  # one batch each
        kafka.logs[HEARTBEATS_TP].append(heartbeat)
        worker.engine.feed(worker.message(HEARTBEATS_TP, heartbeat.offset, 1))
    await worker.clock.advance(1.0)
    assert [offsets for _, offsets, _ in worker.committed] == [{HEARTBEATS.name: at} for at in (1, 2, 3)]
    await worker.engine.stop()


async def test_records_that_stay_lost_raise_an_error_for_the_agent(kafka: FakeKafka) -> None:
    worker = FakeWorker(kafka, FakeClock())
    await worker.take_over(1)
    with pytest.raises(AccidentError):  # noqa: PT012 - it takes some attempts
        for _ in range(10):
            worker.engine.feed(worker.message(HEARTBEATS_TP, 2, 1))
            await settle()
    assert worker.consumer.sought[1:] == [{HEARTBEATS_TP: 0}] * 5
    await worker.engine.stop()


async def test_a_worker_of_the_wall_clock_writes_ticks_for_its_partitions(kafka: FakeKafka) -> None:
    worker = FakeWorker(kafka, clock := FakeClock())
    worker.engine.settings = Settings.from_env(ENVIRON | {"OBOL_CLOCK": "wall"})
    await worker.engine.start()
    await clock.advance(2.0)
    assert kafka.logs[f"dev.{CLOCK.name}", 0] == []
    await worker.take_over(1)
    await clock.advance(60.0)
    assert [record.timestamp for record in kafka.logs[f"dev.{CLOCK.name}", 0]] == [62_000]
    await worker.engine.stop()


async def test_views_see_what_settings_and_prices_say(kafka: FakeKafka) -> None:
    value = b'{"profile":"dedicated.h100.1x","price":"1","currency":"JPY"}'
    kafka.logs[f"dev.{PRICES.name}", 0] = [
        Written(0, 5_000, b"dedicated.h100.1x", value),
        Written(1, 6_000, b"dedicated.h100.1x", b"{"),
    ]
    engine = FakeWorker(kafka, FakeClock()).engine
    await engine.start()
    assert (engine.prices_as_of, engine.prices_refused) == (6_000, 1)
    assert list(engine.prices.history) == ["dedicated.h100.1x"]
    assert (engine.partitions, engine.currency, engine.own_url) == (1, "JPY", "http://a:1")
    assert engine.owner_url(3) == "http://owner-of-3"
    assert (engine.shards(), engine.is_assigned) == ([], False)
    await engine.on_assigned([2, 0], 1)
    assert [shard.partition for shard in engine.shards()] == [0, 2]
    assert engine.is_assigned
    await asyncio.sleep(0)
    await engine.stop()


@pytest.mark.parametrize(
    ("commits", "reason"),
    [
        (True, "the commit of partition 0 is not done after 360 s"),
        (False, "an assignment of partitions from the consumer group is not done after 360 s"),
    ],
)
async def test_a_wait_without_end_ends_the_process(
    kafka: FakeKafka, caplog: pytest.LogCaptureFixture, *, commits: bool, reason: str
) -> None:
    worker = FakeWorker(kafka, FakeClock())
    await worker.engine.start()
    if commits:
        await worker.take_over(1)
        kafka.committing.clear()
        worker.engine.feed(worker.message(HEARTBEATS_TP, 0, 1))
    await worker.clock.advance(370.0)
    ends = [ended.args for ended in fakes.ENDS]
    fakes.ENDS.clear()
    kafka.committing.set()
    await worker.engine.stop()
    # A task whose exception is not retrieved is logged with a traceback, when it is collected.
    assert sum(task.exception() is not None for task in worker.engine._tasks if not task.cancelled()) == 1
    assert ends == [(reason, Accident.TIMED_OUT)]
    assert caplog.text.count(f"waiting for {reason.removesuffix(' is not done after 360 s')}, for 360 s at most") == 1
