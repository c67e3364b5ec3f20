"""The count behind the fleet page and `/metrics`: of what, how often, and whom it lets go first."""

from __future__ import annotations

import asyncio
import gc
import weakref
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from streams.metrics import census
from streams.metrics.census import Census, Censuses, counting
from tests.support.rows import damage
from tests.unit.web.support import FakeShard, Worker, World

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    import pytest

    from streams.metrics.source import Shard, Source

DEADLINE_S = 10.0


def crashed_fleet(orgs: int = 20) -> World:
    """Each org with two replicas of one deployment: one has failed after three minutes, one is pulling."""
    world = World(partitions=1)
    world.price("11:00", "dedicated.h100.1x", "360")
    for number in range(orgs):
        world.deploy("12:00", f"org{number}", "chat", min_replicas=2)
        world.healthy("12:00", f"org{number}", "chat-r1")
        world.progress("12:03", f"org{number}", "chat-r1", "VM_CRASH")
    return world


def worker_of(world: World) -> Worker:
    world.owners = dict.fromkeys(range(world.partitions), "")
    return Worker(world, "")


def counts_noted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The partitions that are counted from now on, one entry a count."""
    counted: list[int] = []

    def noted(shard: Shard, source: Source) -> Iterator[Census]:
        counted.append(shard.partition)
        return counting(shard, source)

    monkeypatch.setattr(census, "counting", noted)
    return counted


@asynccontextmanager
async def kept_counting(censuses: Censuses) -> AsyncIterator[None]:
    task = asyncio.create_task(censuses.keep_counting())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def until(holds: Callable[[], bool], what: str) -> None:
    loop = asyncio.get_running_loop()
    end_s = loop.time() + DEADLINE_S
    while not holds():
        assert loop.time() < end_s, f"not seen: {what}"
        await asyncio.sleep(0.005)


def test_counting_gives_way_and_agrees_whatever_the_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    world = crashed_fleet()
    source = worker_of(world)
    [whole] = counting(world.all[0], source)
    monkeypatch.setattr(census, "FEW_ROWS", 3)
    slices = list(counting(world.all[0], source))
    # An org and its one window count as two: after every second org, and at the end.
    assert len(slices) == 11
    assert slices[-1] == whole
    assert (whole.orgs, whole.suspended_orgs) == (20, 0)
    # Of each org: its own row, a deployment, two replicas, and the closed window of the one that failed.
    assert whole.rows == 100
    assert (whole.replicas["failed"], whole.replicas["running"]) == (20, 0)
    # 12:00 to 12:03, of which only the 90 s that the last health check covers are owed (B3); no tick has come.
    assert whole.totals.figures == (20 * 180_000, 0, 20 * 90_000, 20 * 90_000, 0)
    assert (whole.open_windows, whole.windows["closed_unfinished"]) == (0, 20)
    assert (whole.totals.unexplained_ms, whole.alarms) == (0, {})


def test_alarms_name_the_first_orgs_and_what_each_has_unexplained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(census, "MOST_ALARMS", 2)
    world = World(partitions=1)
    world.price("11:00", "dedicated.h100.1x", "360")
    for org in ("acme", "beta", "core"):
        world.deploy("12:00", org, "chat", min_replicas=2)
        for replica, wrong_ms in (("chat-r1", 5), ("chat-r2", -7)):
            world.healthy("12:00", org, replica)
            damage(world.all[0].store.orgs[org].replicas[replica].open_windows[0], billed_ms=wrong_ms)
    [whole] = counting(world.all[0], worker_of(world))
    assert whole.alarms == {"acme": 12, "beta": 12}
    assert (whole.totals.unexplained_ms, whole.totals.unexplained_windows) == (36, 6)


def test_orgs_that_have_nothing_else_give_way_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(census, "FEW_ROWS", 3)
    world = World(partitions=1)
    for number in range(10):
        world.balance("12:00", f"org{number}", "100")
    slices = list(counting(world.all[0], worker_of(world)))
    assert len(slices) == 4
    assert (slices[-1].rows, slices[-1].orgs) == (10, 10)


def test_a_window_that_closes_during_the_count_is_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(census, "FEW_ROWS", 2)
    world = World(partitions=1)
    world.price("11:00", "dedicated.h100.1x", "360")
    world.deploy("12:00", "acme", "chat", min_replicas=6)
    for number in range(1, 7):
        world.healthy("12:00", "acme", f"chat-r{number}")
    counts = counting(world.all[0], worker_of(world))
    next(counts)
    # One was counted by now; all of them close, and are to be billed 90 s each.
    for number in range(1, 7):
        world.progress("12:03", "acme", f"chat-r{number}", "VM_CRASH")
    *_, whole = counts
    assert whole.windows.total() == 6
    assert (whole.windows["open"], whole.windows["closed_unfinished"], whole.open_windows) == (1, 5, 1)


async def test_a_small_partition_is_counted_whenever_it_is_asked_for() -> None:
    world = World(partitions=1)
    censuses = Censuses(worker_of(world))
    assert (await censuses.of(world.all[0])).orgs == 0
    world.deploy("12:00", "acme", "chat")
    assert (await censuses.of(world.all[0])).orgs == 1


async def test_a_large_one_is_counted_in_the_background(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(census, "FEW_ROWS", 3)
    monkeypatch.setattr(census, "PAUSE_S", 0.0)
    world = crashed_fleet(4)
    source = worker_of(world)
    censuses = Censuses(source)
    shard = world.all[0]
    first = await censuses.of(shard)
    world.deploy("12:04", "late", "chat")
    # Whoever asks is not made to wait for a new count …
    assert await censuses.of(shard) is first
    assert first.orgs == 4
    async with kept_counting(censuses):
        known = [first]

        async def newest() -> None:
            while known[-1].orgs != 5:
                known.append(await censuses.of(shard))
                await asyncio.sleep(0)

        # … which comes by itself.
        await asyncio.wait_for(newest(), DEADLINE_S)
    assert known[-1].as_of_ms == shard.as_of


async def test_what_was_restored_is_counted_before_anybody_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(census, "FEW_ROWS", 3)
    monkeypatch.setattr(census, "PAUSE_S", 0.0)
    world = crashed_fleet(4)
    shard = world.all[0]
    shard.ready = False
    counted = counts_noted(monkeypatch)
    censuses = Censuses(worker_of(world))
    async with kept_counting(censuses):
        await asyncio.sleep(0)
        assert counted == []
        shard.ready = True
        await until(lambda: bool(counted), "a count of the partition that became ready")


async def test_a_small_one_is_left_alone_until_someone_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(census, "PAUSE_S", 0.0)
    world = World(partitions=1)
    counted = counts_noted(monkeypatch)
    censuses = Censuses(worker_of(world))
    async with kept_counting(censuses):
        await until(lambda: bool(counted), "the first count")
        for _ in range(100):
            await asyncio.sleep(0)
    assert len(counted) == 1
    await censuses.of(world.all[0])
    assert len(counted) == 2


async def test_many_who_ask_at_once_share_one_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(census, "FEW_ROWS", 3)
    world = crashed_fleet(4)
    counted = counts_noted(monkeypatch)
    censuses = Censuses(worker_of(world))
    first, *others = await asyncio.gather(*(censuses.of(world.all[0]) for _ in range(5)))
    assert len(counted) == 1
    assert all(other is first for other in others)


async def test_a_partition_that_left_is_let_go_of() -> None:
    world = World(partitions=1)
    censuses = Censuses(worker_of(world))
    await censuses.of(world.all[0])
    left = weakref.ref(world.all.pop())
    gc.collect()
    assert left() is None


async def test_another_shard_of_the_same_partition_is_counted_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(census, "FEW_ROWS", 3)
    world = crashed_fleet(4)
    censuses = Censuses(worker_of(world))
    assert (await censuses.of(world.all[0])).orgs == 4
    # The partition went to another worker and came back: its rows are others.
    world.all[0] = FakeShard(0)
    assert (await censuses.of(world.all[0])).orgs == 0


async def test_a_fault_of_the_count_is_told_and_stops_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(census, "PAUSE_S", 0.0)
    world = World(partitions=1)
    censuses = Censuses(worker_of(world))

    def broken(*_: object) -> None:
        raise RuntimeError("a fault")

    async with kept_counting(censuses):
        with monkeypatch.context() as patch:
            patch.setattr(census, "counting", broken)
            await until(lambda: "partition 0 can't be counted" in caplog.text, "the fault in the log")
        world.deploy("12:00", "acme", "chat")
        assert (await censuses.of(world.all[0])).orgs == 1
