"""What the engine does with what Faust hands it, where no broker can be made to behave so."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from streams.engine.clock import SystemClock
from streams.engine.engine import MAX_READ_AGAIN, NO_GENERATION, Engine
from streams.engine.kafka import AioKafka
from streams.engine.merge import LostRecordsError
from streams.engine.shard import INPUTS
from streams.engine.transport import Fetch
from streams.settings import Settings
from topics.catalogue import HEARTBEATS

if TYPE_CHECKING:
    from collections.abc import Mapping

GENERATION = 3


class Wired:
    """An engine that has partition 0, with a consumer that only notes where it is to read from."""

    def __init__(self) -> None:
        self.sought: list[dict[tuple[str, int], int]] = []
        self.engine = Engine(
            Settings.from_env({"OBOL_PARTITIONS": "1"}),
            owner=lambda _partition: None,
            consumer=self,
            kafka=AioKafka({}),
            clock=SystemClock(),
        )
        self.engine._add(0)
        self.engine._generation = GENERATION
        self.engine.by_partition[0].start(dict.fromkeys(INPUTS, 0))

    async def seek(self, positions: Mapping[tuple[str, int], int]) -> None:
        self.sought.append(dict(positions))

    def pause(self, partition: tuple[str, int]) -> None: ...

    def resume(self, partition: tuple[str, int]) -> None: ...

    def hand_over(self, start: int, end: int) -> None:
        """Feed what was read of the heartbeats from `start` to `end`: markers alone, which take offsets too."""
        fetch = Fetch([], start, end, GENERATION)
        message: Any = SimpleNamespace(topic=HEARTBEATS.name, partition=0, generation_id=GENERATION, value=fetch)
        self.engine.feed(message)

    async def feed(self, start: int, end: int) -> None:
        """Hand over what was read, and let what comes of it happen."""
        self.hand_over(start, end)
        for _ in range(5):
            await asyncio.sleep(0)

    @property
    def fetched(self) -> int:
        return self.engine.by_partition[0].merge.fetched(HEARTBEATS.name)


@pytest.fixture
async def wired() -> Wired:
    return Wired()


async def test_what_got_lost_on_its_way_is_read_again(wired: Wired) -> None:
    await wired.feed(0, 10)
    await wired.feed(20, 30)
    assert (wired.fetched, wired.sought) == (10, [{(HEARTBEATS.name, 0): 10}])
    await wired.feed(10, 20)
    await wired.feed(20, 30)
    assert wired.fetched == 30
    assert len(wired.sought) == 1


async def test_what_was_on_its_way_before_the_seek_asks_for_no_other(wired: Wired) -> None:
    await wired.feed(0, 10)
    for _ in range(3 * MAX_READ_AGAIN):
        wired.hand_over(20, 30)
    await wired.feed(20, 30)
    assert len(wired.sought) == 1


async def test_what_the_log_has_lost_ends_it(wired: Wired) -> None:
    await wired.feed(0, 10)
    for _ in range(MAX_READ_AGAIN):
        await wired.feed(20, 30)
    with pytest.raises(LostRecordsError, match="read from offset 20, but 10 is next"):
        await wired.feed(20, 30)
    assert len(wired.sought) == MAX_READ_AGAIN


async def test_each_gap_counts_for_itself(wired: Wired) -> None:
    for lost in range(2 * MAX_READ_AGAIN):
        await wired.feed(2 * lost + 1, 2 * lost + 2)
        await wired.feed(2 * lost, 2 * lost + 2)
    assert wired.fetched == 4 * MAX_READ_AGAIN


async def test_a_seek_that_a_rebalance_overtakes_is_none_too_many(
    wired: Wired, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def overtaken(_positions: dict[tuple[str, int], int]) -> None:
        wired.engine._generation = NO_GENERATION
        msg = "not assigned"
        raise RuntimeError(msg)

    monkeypatch.setattr(wired, "seek", overtaken)
    await wired.feed(20, 30)
    assert not wired.engine._seeking
