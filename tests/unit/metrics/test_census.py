"""The census behind the fleet page and `/metrics`: its figures, and when partitions are counted."""

from __future__ import annotations

import asyncio
import gc
import weakref
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from streams.metrics import census
from streams.metrics.census import Census, Censuses, counting
from tests.support.rows import damage
from tests.unit.web.support import FakeCluster, FakeShard, FakeWorker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    import pytest

    from streams.metrics.source import ShardView, Source

DEADLINE_S = 10.0


def crashed_fleet(orgs: int = 20) -> FakeCluster:
    """Return orgs with two replicas of one deployment each: one failed after three minutes, one is pulling."""
    world = FakeCluster(partitions=1)
    world.price("11:00", "dedicated.h100.1x", "360")
    for number in range(orgs):
        world.deploy("12:00", f"org{number}", "chat", min_replicas=2)
        world.healthy("12:00", f"org{number}", "chat-r1")
        world.progress("12:03", f"org{number}", "chat-r1", "VM_CRASH")
    return world


def worker_of(world: FakeCluster) -> FakeWorker:
    world.owners = dict.fromkeys(range(world.partitions), "")
    return FakeWorker(world, "")


def record_counts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list to which the partition of every later count is appended."""
    counted: list[int] = []

    def recording(shard: ShardView, source: Source) -> Iterator[Census]:
        counted.append(shard.partition)
        return counting(shard, source)

    monkeypatch.setattr(census, "counting", recording)
    return counted


@asynccontextmanager
async def background_counting(censuses: Censuses) -> AsyncIterator[None]:
    task = asyncio.create_task(censuses.keep_counting())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def until(condition: Callable[[], bool], what: str) -> None:
    loop = asyncio.get_running_loop()
    end_s = loop.time() + DEADLINE_S
    while not condition():
        assert loop.time() < end_s, f"not seen: {what}"
        await asyncio.sleep(0.005)


def test_the_census_does_not_depend_on_where_the_count_yields(monkeypatch: pytest.MonkeyPatch) -> None:
    world = crashed_fleet()
    source = worker_of(world)
    [whole] = counting(world.all[0], source)
    monkeypatch.setattr(census, "FEW_ROWS", 3)
    slices = list(counting(world.all[0], source))
    # An org and its one window count as two, so the count yields after every second org, and at the end.
    assert len(slices) == 11
    assert slices[-1] == whole
    assert (whole.orgs, whole.suspended_orgs) == (20, 0)
    # For each org: its own row, a deployment, two replicas, and the closed window of the failed replica.
    assert whole.rows == 100
    assert (whole.replicas["failed"], whole.replicas["running"]) == (20, 0)
    # Running 12:00 to 12:03; only the 90 s after the last heartbeat may be billed (B3); no tick was applied.
    assert whole.totals.figures == (20 * 180_000, 0, 20 * 90_000, 20 * 90_000, 0)
    assert (whole.open_windows, whole.windows["closed_unfinished"]) == (0, 20)
    assert (whole.totals.unexplained_ms, whole.alarms) == (0, {})


def test_alarms_are_of_the_first_orgs_with_unexplained_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(census, "MOST_ALARMS", 2)
    world = FakeCluster(partitions=1)
    world.price("11:00", "dedicated.h100.1x", "360")
    for org in ("acme", "beta", "core"):
        world.deploy("12:00", org, "chat", min_replicas=2)
        for replica, wrong_ms in (("chat-r1", 5), ("chat-r2", -7)):
            world.healthy("12:00", org, replica)
            damage(world.all[0].store.orgs[org].replicas[replica].open_windows[0], billed_ms=wrong_ms)
    [whole] = counting(world.all[0], worker_of(world))
    assert whole.alarms == {"acme": 12, "beta": 12}
    assert (whole.totals.unexplained_ms, whole.totals.unexplained_windows) == (36, 6)


def test_the_count_yields_between_orgs_without_entities(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(census, "FEW_ROWS", 3)
    world = FakeCluster(partitions=1)
    for number in range(10):
        world.balance("12:00", f"org{number}", "100")
    slices = list(counting(world.all[0], worker_of(world)))
    assert len(slices) == 4
    assert (slices[-1].rows, slices[-1].orgs) == (10, 10)


def test_a_window_that_closes_during_the_count_is_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(census, "FEW_ROWS", 2)
    world = FakeCluster(partitions=1)
    world.price("11:00", "dedicated.h100.1x", "360")
    world.deploy("12:00", "acme", "chat", min_replicas=6)
    for number in range(1, 7):
        world.healthy("12:00", "acme", f"chat-r{number}")
    counts = counting(world.all[0], worker_of(world))
    next(counts)
    # One window is counted by now. All of them close, with 90 s each to bill.
    for number in range(1, 7):
        world.progress("12:03", "acme", f"chat-r{number}", "VM_CRASH")
    *_, whole = counts
    assert whole.windows.total() == 6
    assert (whole.windows["open"], whole.windows["closed_unfinished"], whole.open_windows) == (1, 5, 1)


async def test_a_small_partition_is_counted_at_each_request() -> None:
    world = FakeCluster(partitions=1)
    censuses = Censuses(worker_of(world))
    assert (await censuses.of(world.all[0])).orgs == 0
    world.deploy("12:00", "acme", "chat")
    assert (await censuses.of(world.all[0])).orgs == 1


async def test_a_large_partition_is_counted_in_the_background(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(census, "FEW_ROWS", 3)
    monkeypatch.setattr(census, "PAUSE_S", 0.0)
    world = crashed_fleet(4)
    source = worker_of(world)
    censuses = Censuses(source)
    shard = world.all[0]
    first = await censuses.of(shard)
    world.deploy("12:04", "late", "chat")
    # A request gets the last census without waiting for a new count …
    assert await censuses.of(shard) is first
    assert first.orgs == 4
    async with background_counting(censuses):
        received = [first]

        async def newest() -> None:
            while received[-1].orgs != 5:
                received.append(await censuses.of(shard))
                await asyncio.sleep(0)

        # … which is made in the background.
        await asyncio.wait_for(newest(), DEADLINE_S)
    assert received[-1].as_of_ms == shard.as_of


async def test_a_restored_partition_is_counted_without_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(census, "FEW_ROWS", 3)
    monkeypatch.setattr(census, "PAUSE_S", 0.0)
    world = crashed_fleet(4)
    shard = world.all[0]
    shard.ready = False
    counted = record_counts(monkeypatch)
    censuses = Censuses(worker_of(world))
    async with background_counting(censuses):
        await asyncio.sleep(0)
        assert counted == []
        shard.ready = True
        await until(lambda: bool(counted), "a count of the partition that became ready")


async def test_a_small_partition_is_not_counted_again_in_the_background(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(census, "PAUSE_S", 0.0)
    world = FakeCluster(partitions=1)
    counted = record_counts(monkeypatch)
    censuses = Censuses(worker_of(world))
    async with background_counting(censuses):
        await until(lambda: bool(counted), "the first count")
        for _ in range(100):
            await asyncio.sleep(0)
    assert len(counted) == 1
    await censuses.of(world.all[0])
    assert len(counted) == 2


async def test_concurrent_requests_share_one_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(census, "FEW_ROWS", 3)
    world = crashed_fleet(4)
    counted = record_counts(monkeypatch)
    censuses = Censuses(worker_of(world))
    first, *others = await asyncio.gather(*(censuses.of(world.all[0]) for _ in range(5)))
    assert len(counted) == 1
    assert all(other is first for other in others)


async def test_a_revoked_shard_is_released() -> None:
    world = FakeCluster(partitions=1)
    censuses = Censuses(worker_of(world))
    await censuses.of(world.all[0])
    left = weakref.ref(world.all.pop())
    gc.collect()
    assert left() is None


async def test_a_new_shard_of_the_same_partition_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(census, "FEW_ROWS", 3)
    world = crashed_fleet(4)
    censuses = Censuses(worker_of(world))
    assert (await censuses.of(world.all[0])).orgs == 4
    # The partition was assigned to another worker and back, so it has other rows.
    world.all[0] = FakeShard(0)
    assert (await censuses.of(world.all[0])).orgs == 0


async def test_a_failed_count_is_logged_and_counted_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(census, "PAUSE_S", 0.0)
    world = FakeCluster(partitions=1)
    censuses = Censuses(worker_of(world))

    def broken(*_: object) -> None:
        raise RuntimeError("failed")

    async with background_counting(censuses):
        with monkeypatch.context() as patch:
            patch.setattr(census, "counting", broken)
            await until(lambda: "partition 0 can't be counted" in caplog.text, "the failure in the log")
        world.deploy("12:00", "acme", "chat")
        assert (await censuses.of(world.all[0])).orgs == 1
