"""An instance's two meters: settled at every change, billed by the clock between them (I2, B4 to B6, B9 to B12)."""

from collections.abc import Callable

import pytest

from streams.billing.windows import figures
from tests.unit.rules.instance_world import HOUR, MINUTE, ORG, Effect, World, at

Step = Callable[[], Effect]


def running(world: World, since: str = "12:00:10.500") -> None:
    world.deploy("i", at("12:00"))
    world.report("i", "workload_up", at(since))


def stopped(world: World, since: str = "12:00:10.500") -> None:
    world.deploy("i", at("11:50"))
    world.report("i", "workload_up", at("11:51"))
    world.stop("i", at("11:52"))
    world.report("i", "stop_confirmed", at(since))


def test_the_gpu_meter_starts_at_workload_up_not_at_deploy() -> None:
    world = World()
    world.deploy("i", at("12:00"))
    assert world.tick(at("12:01")).usage == []
    assert world.report("i", "workload_up", at("12:02:00.250")).usage == []
    assert world.tick(at("12:03")).usage == ["i:gpu:12:02:00.250 59750"]
    assert world.tick(at("12:04:02")).usage == ["i:gpu:12:03 60000"]


def test_a_gpu_event_is_for_the_profile_and_a_disk_event_for_its_gb() -> None:
    world = World()
    world.price("instance.h200.8x", "900")
    world.deploy("i", at("12:00"), gpu_type="h200", gpu_count=8, disk_gb=2_048)
    world.report("i", "workload_up", at("12:01"))
    assert dict(world.stop("i", at("12:01:30")).profiles) == {("instance.h200.8x", 1): 30_000}
    world.report("i", "stop_confirmed", at("12:02"))
    assert dict(world.tick(at("12:03")).profiles) == {("disk", 2_048): 60_000}


@pytest.mark.parametrize(
    ("stop_at", "settled"),
    [
        ("12:00:10.500", []),
        ("12:00:10.501", ["i:gpu:12:00:10.500 1"]),
        ("12:00:59.999", ["i:gpu:12:00:10.500 49499"]),
        ("12:01", ["i:gpu:12:00:10.500 49500"]),
        ("12:01:00.001", ["i:gpu:12:00:10.500 49500", "i:gpu:12:01 1"]),
        ("12:02:30.125", ["i:gpu:12:00:10.500 49500", "i:gpu:12:01 60000", "i:gpu:12:02 30125"]),
    ],
)
def test_a_change_settles_to_the_millisecond(stop_at: str, settled: list[str]) -> None:
    world = World()
    running(world)
    assert world.stop("i", at(stop_at)).usage == settled


def test_a_change_in_mid_minute_after_ticks_settles_what_the_ticks_left() -> None:
    world = World()
    running(world)
    assert world.tick(at("12:01:02")).usage == ["i:gpu:12:00:10.500 49500"]
    assert world.report("i", "workload_failed", at("12:01:20.007")).usage == ["i:gpu:12:01 20007"]
    assert world.ticks(at("12:02"), at("12:10")).usage == []


def test_the_disk_meter_gives_an_event_every_minute() -> None:
    world = World()
    stopped(world)
    assert world.tick(at("12:01")).usage == ["i:disk:12:00:10.500 49500"]
    for minute in range(1, 30):
        expected = [f"i:disk:12:{minute:02} 60000"]
        assert world.tick(at("12:00") + (minute + 1) * MINUTE).usage == expected


def test_a_tick_twice_in_a_minute_bills_nothing_twice() -> None:
    world = World()
    stopped(world)
    world.tick(at("12:01:02"))
    assert world.tick(at("12:01:40")).nothing
    assert world.tick(at("12:01")).nothing


def test_a_change_settles_at_most_60_events_and_ticks_bring_the_rest() -> None:
    world = World()
    running(world)
    stop = world.stop("i", at("14:05:05.250"))
    assert len(stop.usage) == 60
    assert (stop.usage[0], stop.usage[-1]) == ("i:gpu:12:00:10.500 49500", "i:gpu:12:59 60000")
    first = world.tick(at("14:05:06"))
    assert (len(first.usage), first.usage[0], first.usage[-1]) == (60, "i:gpu:13:00 60000", "i:gpu:13:59 60000")
    second = world.tick(at("14:06"))
    assert (len(second.usage), second.usage[0], second.usage[-1]) == (6, "i:gpu:14:00 60000", "i:gpu:14:05 5250")
    assert world.tick(at("14:07")).usage == []
    assert sum(world.usage.values()) == at("14:05:05.250") - at("12:00:10.500")


def test_a_tick_that_closes_a_window_sends_no_more_than_60_events_for_it() -> None:
    world = World()
    stopped(world)
    world.balance("-40", at("12:01"))
    tick = world.tick(at("1d 12:01"))  # the first in a day: destroyed for its debt (I8)
    assert tick.changes == ["i stopped>destroying balance_debt"]
    assert len(tick.usage) == 60
    assert tick.usage[-1] == "i:disk:12:59 60000"
    assert len(world.tick(at("1d 12:02")).usage) == 60


def test_a_timeout_is_judged_at_the_tick_and_the_meter_starts_there() -> None:
    world = World()
    running(world)
    world.stop("i", at("12:10:20"))
    assert world.ticks(at("12:11"), at("12:40")).changes == []
    late = world.tick(at("12:41:02.003"))
    assert late.changes == ["i stopping>running stop_timed_out"]
    assert late.usage == []
    assert world.tick(at("12:42:02")).usage == ["i:gpu:12:41:02.003 57997"]


def test_each_stretch_is_a_window_of_its_own() -> None:
    world = World()
    running(world, "12:00")
    world.stop("i", at("12:01"))
    world.report("i", "stop_confirmed", at("12:02"))
    world.start("i", at("12:04"))
    world.report("i", "workload_up", at("12:05"))
    world.destroy("i", at("12:09:00.001"))
    world.report("i", "teardown_finished", at("12:10"))
    windows = world.accountant.store.org(ORG).windows_of(world.row("i"))
    assert [(each.window_id, each.opened_at, each.ended_at, each.billed_ms) for each in windows] == [
        ("i.gpu.w1", at("12:00"), at("12:01"), 60_000),
        ("i.disk.w1", at("12:02"), at("12:04"), 120_000),
        ("i.gpu.w2", at("12:05"), at("12:09:00.001"), 240_001),
    ]


def test_without_a_price_a_close_leaves_the_window_held_and_it_catches_up_60_a_tick() -> None:
    world = World()
    running(world)
    world.price("instance.a100.1x", None, at("12:00:30"))
    assert world.tick(at("12:05")).usage == []
    assert world.stop("i", at("14:00:10.500")).usage == []
    world.report("i", "stop_confirmed", at("14:01"))
    assert world.tick(at("14:02")).usage == ["i:disk:14:01 60000"]  # others go on
    world.price("instance.a100.1x", "7", at("14:02:30"))
    caught_up = [world.tick(at("14:03") + n * MINUTE) for n in range(4)]
    assert [sum("gpu" in piece for piece in tick.usage) for tick in caught_up] == [60, 60, 1, 0]
    assert sum(ms for piece, ms in world.usage.items() if ":gpu:" in piece) == 2 * HOUR


def test_a_window_that_waits_for_its_price_outlives_the_instance() -> None:
    world = World()
    stopped(world)
    world.price("disk", None, at("12:00:30"))
    world.destroy("i", at("12:10"))
    world.report("i", "teardown_finished", at("12:11"))
    for day in range(1, 10):
        world.tick(at("12:00") + day * 24 * HOUR)
    world.restart()
    assert world.state("i") == "destroyed"
    world.price("disk", "0.01", at("12:00") + 10 * 24 * HOUR)
    billed = world.tick(at("12:00") + 10 * 24 * HOUR)
    assert len(billed.usage) == 10
    assert sum(world.usage[piece] for piece in world.usage if ":disk:" in piece) == 10 * MINUTE - 10_500
    assert "i" not in world.accountant.store.org(ORG).instances  # all of it is done: the row may leave (C5)


def test_a_close_before_the_watermark_bills_nothing_and_says_so() -> None:
    world = World()
    running(world, "12:00")
    world.tick(at("12:05"))
    early = world.stop("i", at("12:03:30"))
    assert early.usage == []
    assert early.counts["overbilled_ms", "gpu"] == 90_000
    window = world.accountant.store.org(ORG).windows_of(world.row("i"))[0]
    assert (window.ended_at, window.billed_until) == (at("12:03:30"), at("12:05"))
    assert figures(window, at("12:05")) == (210_000, 300_000, 0, 0, 90_000)


def test_the_next_window_of_the_meter_opens_after_what_is_billed() -> None:
    world = World()
    running(world, "12:00")
    world.tick(at("12:05"))
    world.stop("i", at("12:03:30"))
    world.report("i", "stop_confirmed", at("12:03:40"))
    world.start("i", at("12:03:50"))
    world.report("i", "workload_up", at("12:04"))
    window = world.row("i").open_windows[0]
    assert window is not None
    assert (window.window_id, window.opened_at) == ("i.gpu.w2", at("12:05"))
    assert [piece for piece in world.tick(at("12:06")).usage if "gpu" in piece] == ["i:gpu:12:05 60000"]


def test_nothing_is_billed_for_a_stretch_without_length() -> None:
    world = World("0", gpu="0", disk="0")
    world.deploy("i", at("12:00"))
    up = world.report("i", "workload_up", at("12:01:00.500"))  # the balance is empty: stopped at once (I7)
    assert up.changes == ["i creating>running workload_up", "i running>stopping balance_empty"]
    assert up.usage == []
    assert world.tick(at("12:05")).usage == []


@pytest.mark.parametrize("restarts", [False, True], ids=["steady", "restarts"])
def test_a_life_settles_every_millisecond_of_running_and_stopped_and_no_other(*, restarts: bool) -> None:
    world = World()
    steps: list[Step] = [
        lambda: world.deploy("i", at("12:00:03.100")),
        lambda: world.report("i", "workload_up", at("12:02:17.020")),
        lambda: world.tick(at("12:03:02")),
        lambda: world.stop("i", at("12:03:30.001")),
        lambda: world.tick(at("12:04:02")),
        lambda: world.report("i", "stop_confirmed", at("12:04:45.999")),
        lambda: world.tick(at("12:05:02")),
        lambda: world.tick(at("12:06:02")),
        lambda: world.start("i", at("12:06:02.500")),
        lambda: world.tick(at("12:07:02")),
        lambda: world.report("i", "workload_up", at("12:07:30")),
        lambda: world.report("i", "workload_completed", at("12:09:00.001")),
        lambda: world.tick(at("12:10:02")),
        lambda: world.destroy("i", at("12:10:30")),
        lambda: world.report("i", "teardown_finished", at("12:11")),
        lambda: world.tick(at("12:12:02")),
    ]
    for step in steps:
        step()
        if restarts:
            world.restart()
    assert list(world.usage.items()) == [
        ("i:gpu:2026-11-29T12:02:17.020Z", 42_980),
        ("i:gpu:2026-11-29T12:03:00.000Z", 30_001),
        ("i:disk:2026-11-29T12:04:45.999Z", 14_001),
        ("i:disk:2026-11-29T12:05:00.000Z", 60_000),
        ("i:disk:2026-11-29T12:06:00.000Z", 2_500),
        ("i:gpu:2026-11-29T12:07:30.000Z", 30_000),
        ("i:gpu:2026-11-29T12:08:00.000Z", 60_000),
        ("i:gpu:2026-11-29T12:09:00.000Z", 1),
    ]
