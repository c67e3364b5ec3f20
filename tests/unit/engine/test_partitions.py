"""Assigned and revoked partitions: in which order they are fenced, restored, activated and committed."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from streams.billing.prices import Prices
from streams.engine.changelogs import Changelogs
from streams.engine.commit import Commits, Committer
from streams.engine.fatal import Accident
from streams.engine.merge import Damage, Unreadable
from streams.engine.partitions import NO_GENERATION, RESTORE_TIMEOUT_S, Partitions
from streams.engine.ports import Fetch
from streams.engine.position import KEY, TABLE, Position, encode_position
from streams.engine.shard import INPUTS, Phase, Shard
from streams.engine.tasks import cancel_and_wait
from streams.engine.waits import Waits
from streams.limits import HOUR_MS
from streams.rules.context import Switches
from tests.unit.engine.fakes import FakeClock, FakeKafka, Written, process_end
from topics.catalogue import HEARTBEATS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

POSITIONS = f"obol-{TABLE}-changelog"
INPUT = {f"dev.{topic}": topic for topic in INPUTS}
POSITION = encode_position(Position(as_of=5, offsets={HEARTBEATS.name: 3}))


class FakeWorker:
    """The partitions of a worker, with one table. Its shards have nothing to commit unless their queues move."""

    def __init__(self, kafka: FakeKafka) -> None:
        self.kafka, self.clock = kafka, FakeClock()
        self.changelogs = Changelogs("obol", [TABLE])
        waits = Waits(self.clock, lambda: self.answers)
        self.answers = True
        self.commits = Commits(
            self.committer,
            changelogs=self.changelogs,
            admin=kafka.admin("test"),
            clock=self.clock,
            waits=waits,
            interval_s=1e9,
        )
        self.partitions = Partitions(
            self.shard,
            inputs=INPUT,
            commits=self.commits,
            changelogs=self.changelogs,
            admin=kafka.admin("test"),
            clock=self.clock,
            waits=waits,
        )

    def committer(self, partition: int) -> Committer:
        return Committer(
            partition,
            kafka=self.kafka,
            clock=self.clock,
            app_id="obol",
            topic=lambda topic: f"dev.{topic}",
            changelog=self.changelogs.name,
        )

    @staticmethod
    def shard(partition: int) -> Shard:
        return Shard(
            partition,
            partitions=4,
            prices=Prices(),
            switches=Switches(),
            retention_ms=HOUR_MS,
            stall_timeout_s=2.0,
        )

    def restore(self, partition: int, values: list[bytes], *, start: int = 0, generation: int = 1) -> None:
        records = [Written(start + at, 0, KEY, value) for at, value in enumerate(values)]
        # A commit marker follows.
        fetch = Fetch(list(records), start, start + len(records) + 1, generation)
        self.partitions.restore((POSITIONS, partition), fetch)


@pytest.fixture
async def worker() -> AsyncIterator[FakeWorker]:
    made = FakeWorker(FakeKafka())
    yield made
    await asyncio.sleep(0)  # so that every task has begun
    await made.commits.stop()


async def test_before_any_assignment_a_worker_has_nothing(worker: FakeWorker) -> None:
    assert (worker.partitions.shards, worker.partitions.is_assigned) == ({}, False)
    assert worker.partitions.generation == NO_GENERATION
    await worker.partitions.assign([], 1)
    assert (worker.partitions.shards, worker.partitions.is_assigned) == ({}, True)


async def test_previous_owners_are_fenced_before_the_end_offsets_are_read(worker: FakeWorker) -> None:
    worker.kafka.logs[POSITIONS, 2] = [Written(0, 0), Written(1, -1)]
    await worker.partitions.assign([2, 0], 1)
    assert sorted(worker.kafka.calls[:-1]) == ["fence obol-0", "fence obol-2"]
    assert worker.kafka.calls[-1] == "end_offsets"
    assert {p: shard.restore_total for p, shard in worker.partitions.shards.items()} == {0: 0, 2: 2}
    assert worker.partitions.working() == []


async def test_partitions_that_stay_keep_their_rows_and_are_fenced_again(worker: FakeWorker) -> None:
    await worker.partitions.assign([0, 1], 1)
    stays = worker.partitions.shards[1]
    for partition in (0, 1):
        worker.restore(partition, [POSITION])
    await worker.partitions.revoke()
    await worker.partitions.assign([1, 2], 2)
    assert worker.partitions.shards.keys() == {1, 2}
    assert worker.partitions.shards[1] is stays
    assert [worker.changelogs.restored_to((POSITIONS, partition)) for partition in range(3)] == [-1, 1, -1]
    assert worker.kafka.epochs == {"obol-0": 1, "obol-1": 2, "obol-2": 1}
    assert worker.kafka.calls.count("stop obol-0") == 1


async def test_partitions_are_active_once_the_changelogs_are_restored(worker: FakeWorker) -> None:
    worker.kafka.logs[POSITIONS, 0] = [Written(0, 0), Written(1, -1)]
    worker.kafka.beginnings["dev." + HEARTBEATS.name, 0] = 2
    await worker.partitions.assign([0], 1)
    assert not await worker.partitions.activate(1)
    assert worker.partitions.working() == []
    worker.restore(0, [POSITION])
    assert await worker.partitions.activate(1)
    assert worker.partitions.working() == [0]
    shard = worker.partitions.shards[0]
    assert (shard.as_of, shard.merge.fetched(HEARTBEATS.name)) == (5, 3)


async def test_an_assignment_replaced_by_a_later_one_is_not_activated(worker: FakeWorker) -> None:
    await worker.partitions.assign([0], 1)
    assert not await worker.partitions.activate(2)
    assert "beginning_offsets" not in worker.kafka.calls
    activating = asyncio.create_task(worker.partitions.activate(1))
    await asyncio.sleep(0)
    assert worker.kafka.calls[-1] == "beginning_offsets"  # and it waits for the answer
    await worker.partitions.revoke()
    assert not await activating
    assert worker.partitions.working() == []
    assert worker.partitions.shards[0].phase is Phase.RESTORING


async def test_a_revocation_commits_everything_applied_and_suspends_the_shards(worker: FakeWorker) -> None:
    await worker.partitions.assign([0], 1)
    await worker.partitions.activate(1)
    worker.partitions.shards[0].merge.feed(HEARTBEATS.name, [], 0, 4, asked=0)
    await worker.partitions.revoke()
    assert worker.kafka.offsets == {("dev." + HEARTBEATS.name, 0): 4}
    assert worker.partitions.shards[0].phase is Phase.SUSPENDED
    assert (worker.partitions.working(), worker.partitions.generation) == ([], NO_GENERATION)
    # The row of positions, and its marker.
    assert worker.changelogs.restored_to((POSITIONS, 0)) == 1


async def test_a_fetch_of_an_earlier_generation_or_another_partition_is_not_restored(worker: FakeWorker) -> None:
    await worker.partitions.assign([0], 2)
    worker.restore(0, [POSITION], generation=1)
    worker.restore(1, [POSITION], generation=2)
    assert worker.partitions.shards[0].restored_rows == 0
    assert worker.changelogs.restored_to((POSITIONS, 0)) == -1


async def test_records_in_memory_are_not_restored_again(worker: FakeWorker) -> None:
    await worker.partitions.assign([0], 1)
    worker.restore(0, [POSITION, POSITION])
    worker.restore(0, [POSITION, POSITION, POSITION, POSITION], start=1)
    assert worker.partitions.shards[0].restored_rows == 4  # the offsets 0, 1, and after the marker at 2 also 3 and 4
    assert worker.changelogs.restored_to((POSITIONS, 0)) == 5


@pytest.mark.parametrize(
    ("start", "value", "reason"),
    [
        (3, POSITION, f"{POSITIONS} partition 0: read from offset 3, but 1 was the last before"),
        (2, b"{", f"{POSITIONS} partition 0 can't be restored: "),
    ],
)
async def test_rows_that_are_missing_or_unreadable_end_the_process(
    worker: FakeWorker, start: int, value: bytes, reason: str
) -> None:
    await worker.partitions.assign([0], 1)
    worker.restore(0, [POSITION])
    with process_end() as ended:
        worker.restore(0, [value], start=start)
    assert ended[0].args[0].startswith(reason)
    assert worker.changelogs.restored_to((POSITIONS, 0)) == 1


async def test_a_record_of_a_changelog_that_can_t_be_read_ends_the_process(worker: FakeWorker) -> None:
    await worker.partitions.assign([0], 1)
    bad = Unreadable(POSITIONS, 0, 0, 0, KEY, None, "undecodable", "what it is")
    with process_end() as ended:
        worker.partitions.restore((POSITIONS, 0), Fetch([bad], 0, 1, 1))
    reason = f"{POSITIONS} partition 0 can't be restored: offset 0: what it is"
    assert ended[0].args == (reason, Accident.UNREADABLE_ROW)


async def test_a_changelog_that_is_damaged_ends_the_process_while_its_rows_are_needed(
    worker: FakeWorker, caplog: pytest.LogCaptureFixture
) -> None:
    await worker.partitions.assign([0], 1)
    worker.partitions.on_damage((POSITIONS, 0), Damage(7, "no leader", may_pass=True))
    assert f"{POSITIONS} partition 0 can't be read at offset 7: no leader; waiting" in caplog.text
    worker.partitions.on_damage((POSITIONS, 0), None)
    worker.partitions.on_damage((POSITIONS, 1), Damage(7, "a bit"))
    with process_end() as ended:
        worker.partitions.on_damage((POSITIONS, 0), Damage(7, "a bit"))
    reason = (
        f"{POSITIONS} partition 0 can't be read at offset 7: a bit; restore that replica, or elect another as leader"
    )
    assert ended[0].args == (reason, Accident.CHANGELOG_DAMAGED)
    worker.partitions.shards[0].phase = Phase.WORKING
    worker.partitions.on_damage((POSITIONS, 0), Damage(7, "a bit"))


async def test_a_restore_without_progress_ends_the_process(
    worker: FakeWorker, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    worker.kafka.logs[POSITIONS, 0] = [Written(at, 0) for at in range(10)]
    await worker.partitions.assign([0], 1)
    watching = asyncio.create_task(worker.partitions.watch_restore())
    await worker.clock.advance(RESTORE_TIMEOUT_S - 1)
    worker.restore(0, [POSITION] * 4)
    await worker.clock.advance(RESTORE_TIMEOUT_S)
    assert "restoring 1 partitions: 4 of 10 changelog offsets, 4/s" in caplog.text
    assert not watching.done()
    await worker.clock.advance(1)
    with process_end() as ended:
        await watching
    assert ended[0].args[0] == "partitions [0] are not restored, and nothing was read for 60 s"


async def test_after_the_restore_an_idle_worker_does_not_end(worker: FakeWorker) -> None:
    await worker.partitions.assign([0], 1)
    await worker.partitions.activate(1)
    watching = asyncio.create_task(worker.partitions.watch_restore())
    await worker.clock.advance(3 * RESTORE_TIMEOUT_S)
    assert not watching.done()
    await cancel_and_wait([watching])
