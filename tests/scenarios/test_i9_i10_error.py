"""I9, I10: what error means: no costs, GPUs back at once, and an end after an hour for what has ended."""

import pytest

from tests.unit.rules.instance_world import HOUR, MINUTE, World, at


def launched(world: World, **fields: bool) -> None:
    """Running since 12:01."""
    world.deploy("i", at("12:00"), **fields)
    world.report("i", "workload_up", at("12:01"))


def halted(world: World, **fields: bool) -> None:
    """Stopped since 12:03."""
    launched(world, **fields)
    world.stop("i", at("12:02"))
    world.report("i", "stop_confirmed", at("12:03"))


NEVER_RAN = [
    "launch_failed",
    "launch_failed_before_host",
    "workload_lost",
    "workload_failed",
    "workload_completed",
    "workload_gone",
]
ENDED = ["workload_failed", "workload_completed", "workload_gone"]


@pytest.mark.parametrize("report", NEVER_RAN)
def test_what_never_ran_is_destroyed_an_hour_after_its_error(report: str) -> None:
    world = World()
    world.deploy("i", at("12:00"))
    world.report("i", report, at("12:05:00.001"))
    assert world.tick(at("13:05")).changes == []
    expired = world.tick(at("13:05:00.001"))
    assert expired.changes == ["i error>destroying error_expired"]
    assert expired.orders == ["i:destroy:1/1"]
    assert expired.told[0].error_code is None


@pytest.mark.parametrize("report", ENDED)
def test_what_ran_and_has_ended_is_destroyed_too(report: str) -> None:
    world = World()
    launched(world)
    world.report("i", report, at("12:05"))
    assert world.tick(at("13:04")).changes == []
    assert world.tick(at("13:05")).changes == ["i error>destroying error_expired"]


def test_what_ran_and_was_lost_waits() -> None:
    world = World()
    launched(world)
    world.report("i", "workload_lost", at("12:05"))
    for day in range(1, 40):
        assert world.tick(at("12:05") + day * 24 * HOUR).nothing
    assert world.destroy("i", at("12:06") + 40 * 24 * HOUR).answer == "accepted"


@pytest.mark.parametrize("report", ENDED)
def test_its_hour_runs_on_when_it_is_known_to_have_ended(report: str) -> None:
    world = World()
    launched(world)
    world.report("i", "workload_lost", at("12:05"))
    ended = world.report("i", report, at("12:50"), message="seen by the sweep")
    assert ended.changes == [f"i error>error {report}"]
    assert (ended.told[0].error_code, ended.told[0].error_message) == (report, "seen by the sweep")
    assert world.tick(at("13:04:59.999")).changes == []
    assert world.tick(at("13:05")).changes == ["i error>destroying error_expired"]


def test_ended_long_after_it_was_lost_it_goes_at_the_next_tick() -> None:
    world = World()
    launched(world)
    world.report("i", "workload_lost", at("12:05"))
    world.tick(at("1d 12:00"))
    world.report("i", "workload_gone", at("1d 12:00:30"))
    assert world.tick(at("1d 12:01")).changes == ["i error>destroying error_expired"]


def test_the_same_code_again_is_no_change() -> None:
    world = World()
    launched(world)
    world.report("i", "workload_gone", at("12:05"))
    assert world.report("i", "workload_gone", at("12:06")).nothing
    assert world.tick(at("13:05")).changes == ["i error>destroying error_expired"]


def test_a_recovery_and_a_second_error_have_an_hour_of_their_own() -> None:
    world = World()
    launched(world)
    world.report("i", "workload_failed", at("12:05"))
    world.report("i", "found_running", at("12:30"))
    world.report("i", "workload_failed", at("12:40"))
    assert world.tick(at("13:39")).changes == []
    assert world.tick(at("13:40")).changes == ["i error>destroying error_expired"]


def test_found_running_it_has_run() -> None:
    world = World()
    world.deploy("i", at("12:00"))
    world.report("i", "workload_lost", at("12:05"))
    world.report("i", "found_running", at("12:10"))
    world.report("i", "workload_lost", at("12:20"))
    assert world.tick(at("14:00")).nothing


def test_found_held_it_still_never_ran() -> None:
    world = World()
    world.deploy("i", at("12:00"))
    world.report("i", "launch_failed", at("12:05"))
    world.report("i", "found_held", at("12:10"))
    world.start("i", at("12:15"))
    world.report("i", "workload_gone", at("12:20"))
    assert world.tick(at("13:20")).changes == ["i error>destroying error_expired"]


def test_it_costs_nothing_and_counts_towards_the_25() -> None:
    world = World()
    for n in range(25):
        world.deploy(f"j{n}", at("12:00"))
        world.report(f"j{n}", "launch_failed", at("12:01"))
    assert world.ticks(at("12:02"), at("13:00")).usage == []
    assert world.deploy("i", at("13:00:30")).answer == "INSTANCE_LIMIT"
    assert len(world.tick(at("13:01")).changes) == 25
    world.report("j0", "teardown_finished", at("13:02"))
    assert world.deploy("i", at("13:03")).answer == "accepted"


def test_only_destroy_is_allowed_meanwhile() -> None:
    world = World()
    launched(world)
    world.report("i", "workload_failed", at("12:05"))
    assert world.start("i", at("12:06")).answer == "ILLEGAL_TRANSITION"
    assert world.stop("i", at("12:06")).answer == "ILLEGAL_TRANSITION"
    assert world.destroy("i", at("12:06")).answer == "accepted"


@pytest.mark.parametrize("releasable", [True, False], ids=["releasable", "fixed"])
@pytest.mark.parametrize("report", ["workload_failed", "workload_lost", "workload_completed", "workload_gone"])
def test_an_error_releases_the_gpus_at_once_whatever_the_machine_supports(report: str, *, releasable: bool) -> None:
    world = World()
    launched(world, gpus_releasable=releasable)
    error = world.report("i", report, at("12:05"))
    assert error.orders == ["i:release_gpus:1/1"]
    assert not world.row("i").gpus_held


@pytest.mark.parametrize(("report", "orders"), [("launch_failed", 1), ("launch_failed_before_host", 0)])
def test_a_launch_that_failed_before_its_host_holds_its_slice_until_destroyed(report: str, orders: int) -> None:
    world = World()
    world.deploy("i", at("12:00"))
    error = world.report("i", report, at("12:05"))
    assert len(error.orders) == orders
    world.tick(at("13:05"))
    assert (world.state("i"), world.row("i").gpus_held) == ("destroying", not orders)
    world.report("i", "teardown_finished", at("13:06"))
    assert not world.row("i").gpus_held


def test_an_empty_balance_does_not_release_what_an_error_holds() -> None:
    world = World()
    world.deploy("i", at("12:00"))
    world.report("i", "launch_failed_before_host", at("12:05"))
    assert world.balance("0", at("12:06")).nothing
    assert world.row("i").gpus_held
    found = world.report("i", "found_held", at("12:07"))  # it arrives in stopped while the balance is down (I7)
    assert found.orders == ["i:release_gpus:1/1"]


@pytest.mark.parametrize("state", ["stopped", "stopping", "starting"])
def test_a_container_gone_while_it_was_stopped_ends_the_disk_meter(state: str) -> None:
    world = World()
    halted(world)
    if state == "stopping":
        world.start("i", at("12:04"))
        world.report("i", "workload_up", at("12:05"))
        world.stop("i", at("12:06"))
    elif state == "starting":
        world.start("i", at("12:04"))
    world.tick(at("12:10"))
    gone = world.report("i", "workload_gone", at("12:10:20"))
    assert gone.changes == [f"i {state}>error workload_gone"]
    assert gone.orders == []
    assert gone.usage == (["i:disk:12:10 20000"] if state == "stopped" else [])
    assert world.ticks(at("12:11"), at("12:11") + 50 * MINUTE).usage == []


def test_release_orders_count_up() -> None:
    world = World()
    launched(world)
    assert world.report("i", "workload_failed", at("12:05")).orders == ["i:release_gpus:1/1"]
    world.report("i", "found_running", at("12:06"))
    assert world.report("i", "workload_lost", at("12:07")).orders == ["i:release_gpus:2/2"]
