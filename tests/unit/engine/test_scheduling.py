"""Scheduling: shards apply records one after another, other tasks run in between, end offsets are requested."""

from __future__ import annotations

import asyncio
from itertools import groupby
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from aiokafka.errors import KafkaConnectionError

from streams.engine.changelogs import Changelogs
from streams.engine.commit import Commits, Committer
from streams.engine.merge import Wait
from streams.engine.position import Position
from streams.engine.scheduling import MAX_BUSY_S, SLICE_RECORDS, EndOffsets, Scheduler
from streams.engine.shard import Commit
from streams.engine.tasks import cancel_and_wait
from streams.engine.waits import Waits
from tests.unit.engine.fakes import FakeClock, FakeKafka, settle, until
from topics.catalogue import COMMANDS, HEARTBEATS, PRICES

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

INPUTS = {"dev.a": COMMANDS.name, "dev.b": HEARTBEATS.name}


class FakeMerge:
    def __init__(self) -> None:
        self.wait: Wait | None = None
        self.known: list[tuple[dict[str, int], int]] = []

    def set_ends(self, ends: dict[str, int], asked: int) -> None:
        self.known.append((ends, asked))
        self.wait = None


class FakeShard:
    """A shard that applies `records` in each of `left` turns. A turn takes `turn_s`, and is appended to `events`."""

    def __init__(self, partition: int, world: Scheduling) -> None:
        self.partition = partition
        self.merge = FakeMerge()
        self.left = 0
        self.records = 1
        self.turn_s = 0.0
        self.is_full = False
        self.seen_s: list[float] = []
        self.uncommitted = 0
        self.position = Position()
        self._world = world

    def advance(self, now_s: float, max_records: int) -> int:
        assert max_records == SLICE_RECORDS
        self.seen_s.append(now_s)
        if not self.left:
            return 0
        self.left -= 1
        self.uncommitted += 1
        self._world.clock.now_s += self.turn_s
        self._world.events.append(f"applied {self.partition}")
        return self.records

    @property
    def has_moved(self) -> bool:
        return self.uncommitted > 0

    def drain(self, _ends: dict[str, int]) -> Commit | None:
        if not self.uncommitted:
            return None
        self.uncommitted = 0
        return Commit(self.partition, rows={"orgs": [(b"k", b"{}")]}, offsets={HEARTBEATS.name: 1})


class Scheduling:
    """The scheduler and the end offsets of some fake shards."""

    def __init__(self) -> None:
        self.kafka, self.clock, self.work = FakeKafka(), FakeClock(), asyncio.Event()
        self.events: list[str] = []
        self.hurried: list[int] = []
        shards: dict[int, Any] = {0: FakeShard(0, self), 1: FakeShard(1, self)}
        self.partitions = stand_in(shards=shards, generation=1, working=lambda: list(shards))
        self.shards = shards
        self.ends = EndOffsets(
            self.partitions, self.kafka.admin("test"), self.clock, inputs=INPUTS, prices="dev.prices", work=self.work
        )
        self.after_turn: list[int] = []
        self.scheduler = Scheduler(
            self.partitions,
            self.ends,
            self.clock,
            work=self.work,
            commit_soon=self.hurried.append,
            applied=lambda shard: self.after_turn.append(shard.partition),
        )
        self.tasks = [asyncio.create_task(self.scheduler.run()), asyncio.create_task(self.ends.run())]


def stand_in(**attributes: Any) -> Any:
    return SimpleNamespace(**attributes)


@pytest.fixture
async def world() -> AsyncIterator[Scheduling]:
    made = Scheduling()
    await settle()
    yield made
    assert not any(task.done() for task in made.tasks)
    await cancel_and_wait(made.tasks)


# Turns


async def test_shards_apply_in_turn_until_nothing_is_left(world: Scheduling) -> None:
    world.shards[0].left, world.shards[1].left, world.shards[1].records = 2, 3, 10
    world.work.set()
    await settle()
    assert world.events == ["applied 0", "applied 1", "applied 0", "applied 1", "applied 1"]
    assert world.scheduler.records_applied == 2 + 30
    assert set(world.after_turn) == {0, 1}


@pytest.mark.parametrize(("turn_s", "turns_between"), [(2 * MAX_BUSY_S, 1), (0.001, 2)])
async def test_other_tasks_run_after_each_slow_shard_and_after_each_round(
    world: Scheduling, turn_s: float, turns_between: int
) -> None:
    for shard in world.shards.values():
        shard.left, shard.turn_s = 3, turn_s

    async def view() -> None:
        while world.events.count("applied 1") < 3:
            world.events.append("view")
            await asyncio.sleep(0)

    world.work.set()
    await view()
    turns = [list(group) for event, group in groupby(world.events, key=lambda event: event == "view") if not event]
    assert [len(group) for group in turns] == [turns_between] * (6 // turns_between)


async def test_a_fast_shard_commits_between_the_ticks_of_slow_ones(world: Scheduling) -> None:
    light, heavy = world.shards[0], world.shards[1]
    light.left, heavy.left, heavy.turn_s = 1, 200, 0.5
    commits = Commits(
        lambda partition: Committer(
            partition, kafka=world.kafka, clock=world.clock, app_id="obol", topic=str, changelog=str
        ),
        changelogs=Changelogs("obol", ["orgs"]),
        admin=world.kafka.admin("test"),
        clock=world.clock,
        waits=Waits(world.clock, lambda: True),
        interval_s=1e9,
    )
    commits.after_commit.append(lambda shard, _commit, _s: world.events.append(f"committed {shard.partition}"))
    await commits.fence(light)
    await settle()
    world.work.set()
    await asyncio.sleep(0)
    commits.commit_soon(0)
    for _ in range(10):
        await settle()
    committed = world.events.index("committed 0")
    assert world.events[0] == "applied 0"
    assert committed < 100, "half of the heavy shard's turns are still to come"
    assert world.events.count("applied 1") == 200
    await commits.stop()


async def test_a_shard_revoked_during_a_round_applies_nothing(world: Scheduling) -> None:
    world.shards[0].left = world.shards[1].left = 1
    world.shards[0].turn_s = 2 * MAX_BUSY_S
    world.work.set()
    await until(lambda: world.events)
    del world.shards[1]
    await settle()
    assert world.events == ["applied 0"]


async def test_a_full_shard_is_committed_soon(world: Scheduling) -> None:
    world.shards[1].is_full = True
    world.work.set()
    await settle()
    assert world.hurried == [1]


async def test_without_work_no_shard_applies_records(world: Scheduling) -> None:
    await world.clock.advance(3_600)
    assert world.after_turn == []


# Stall timeouts


async def test_a_stall_timeout_is_measured_in_small_steps(world: Scheduling) -> None:
    world.shards[0].merge.wait = Wait(HEARTBEATS.name, 2.0)
    world.work.set()
    await settle()
    await world.clock.advance(2.0)
    assert world.shards[0].seen_s == [0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0]


async def test_busy_time_is_not_counted_as_a_stall(world: Scheduling) -> None:
    stalled, busy = world.shards[0], world.shards[1]
    stalled.merge.wait = Wait(HEARTBEATS.name, 2.0)
    busy.left, busy.turn_s = 4, 60.0
    world.work.set()
    await settle()
    # Four turns of a minute each count a quarter of a second each.
    assert world.clock.now_s == 240.0
    assert stalled.seen_s[-1] == 1.0


# End offsets


async def test_one_request_for_end_offsets_serves_all_waiting_shards(world: Scheduling) -> None:
    for shard in world.shards.values():
        shard.merge.wait = Wait()
    world.kafka.logs["dev.b", 1] = [stand_in()] * 3
    world.kafka.logs["dev.prices", 0] = [stand_in()] * 2
    world.work.set()
    await settle()
    assert world.kafka.calls == ["end_offsets"]
    assert world.ends.asked == 1
    assert world.shards[0].merge.known == [({COMMANDS.name: 0, HEARTBEATS.name: 0, PRICES.name: 2}, 1)]
    assert world.shards[1].merge.known == [({COMMANDS.name: 0, HEARTBEATS.name: 3, PRICES.name: 2}, 1)]
    assert world.after_turn == [0, 1, 0, 1], "the answer is work"


async def test_a_stall_needs_no_end_offsets(world: Scheduling) -> None:
    world.shards[0].merge.wait = Wait(HEARTBEATS.name, 2.0)
    world.work.set()
    await settle()
    assert world.kafka.calls == []


async def test_a_failed_request_for_end_offsets_is_retried(world: Scheduling, caplog: pytest.LogCaptureFixture) -> None:
    world.kafka.failing["end_offsets"] = KafkaConnectionError()
    world.ends.request()
    await world.clock.advance(0.1)
    assert "retrying" in caplog.text
    world.kafka.failing.clear()
    await world.clock.advance(0.2)
    assert world.kafka.calls == ["end_offsets", "end_offsets"]
    assert [asked for _, asked in world.shards[0].merge.known] == [2]


async def test_end_offsets_of_an_earlier_generation_are_discarded(world: Scheduling) -> None:
    world.ends.request()
    await until(lambda: world.kafka.calls)
    world.partitions.generation = 2
    await settle()
    assert world.shards[0].merge.known == []
