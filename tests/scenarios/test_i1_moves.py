"""I1, I3, I4: every row of the transition table as the course of an instance's life, late and odd reports included."""

import pytest

from streams.lifecycle.instance import Order
from tests.unit.rules.instance_world import MINUTE, ORG, World, at


def launched(world: World, instance_id: str = "i") -> None:
    """Running since 12:01."""
    world.deploy(instance_id, at("12:00"))
    world.report(instance_id, "workload_up", at("12:01"))


def halted(world: World, instance_id: str = "i") -> None:
    """Stopped since 12:03."""
    launched(world, instance_id)
    world.stop(instance_id, at("12:02"))
    world.report(instance_id, "stop_confirmed", at("12:03"))


def timed_out(world: World) -> None:
    """Running with a stop pending since 12:32; its order was sent at 12:02 and 12:32."""
    launched(world)
    world.stop("i", at("12:02"))
    assert world.tick(at("12:32")).changes == ["i stopping>running stop_timed_out"]


def test_the_normal_path() -> None:
    world = World()
    life = [
        world.deploy("i", at("12:00")),
        world.report("i", "workload_up", at("12:02")),
        world.stop("i", at("12:10")),
        world.report("i", "stop_confirmed", at("12:11")),
        world.start("i", at("12:20")),
        world.report("i", "workload_up", at("12:21")),
        world.destroy("i", at("12:30")),
        world.report("i", "teardown_finished", at("12:31")),
    ]
    assert [effect.changes for effect in life] == [
        ["i >creating deployed"],
        ["i creating>running workload_up"],
        ["i running>stopping user"],
        ["i stopping>stopped stop_confirmed"],
        ["i stopped>starting user"],
        ["i starting>running workload_up"],
        ["i running>destroying user"],
        ["i destroying>destroyed teardown_finished"],
    ]
    assert [effect.orders for effect in life] == [
        ["i:create:1/1"],
        [],
        ["i:stop:1/1"],
        [],
        ["i:start:1/1"],
        [],
        ["i:destroy:1/1"],
        [],
    ]
    assert [told.event_id for effect in life for told in effect.told] == [f"instance:i:{n}" for n in range(1, 9)]
    assert [effect.result.status for effect in life if effect.result] == [202] * 4


@pytest.mark.parametrize("state", ["creating", "starting", "stopping"])
def test_teardown_can_begin_in_each_transitional_state(state: str) -> None:
    world = World()
    if state == "creating":
        world.deploy("i", at("12:00"))
    elif state == "stopping":
        launched(world)
        world.stop("i", at("12:04"))
    else:
        halted(world)
        world.start("i", at("12:04"))
    destroy = world.destroy("i", at("12:05"))
    assert (destroy.answer, destroy.changes) == ("accepted", [f"i {state}>destroying user"])
    assert destroy.orders == ["i:destroy:1/1"]
    again = world.destroy("i", at("12:05:30"))
    assert (again.answer, again.nothing) == ("accepted", True)
    assert world.report("i", "teardown_finished", at("12:06")).changes == ["i destroying>destroyed teardown_finished"]


def test_a_stop_without_confirmation_puts_the_instance_back_to_running_after_30_minutes() -> None:
    world = World()
    launched(world)
    world.stop("i", at("12:02:00.001"))
    assert world.tick(at("12:32")).nothing  # a millisecond early
    back = world.tick(at("12:32:00.001"))
    assert back.changes == ["i stopping>running stop_timed_out"]
    assert back.told[0].error_code == "stop_timed_out"
    assert back.told[0].error_message
    assert world.meter("i") == "gpu"


def test_a_pending_stop_is_sent_again_at_each_tick_once_a_minute_until_confirmed() -> None:
    world = World()
    timed_out(world)
    assert world.row("i").orders[Order.STOP].sent == 2  # at 12:02, and by the tick that judged it
    assert world.tick(at("12:32:30")).orders == []
    assert world.tick(at("12:33")).orders == ["i:stop:3/3"]
    assert world.tick(at("12:33:59.999")).orders == []
    assert world.tick(at("12:34")).orders == ["i:stop:4/4"]
    confirmed = world.report("i", "stop_confirmed", at("12:34:10"))
    assert confirmed.changes == ["i running>stopping stop_confirmed", "i stopping>stopped stop_confirmed"]
    assert confirmed.orders == []
    assert [told.error_code for told in confirmed.told] == [None, None]
    assert world.row("i").error_message is None
    assert world.tick(at("12:35")).orders == []


def test_a_user_may_stop_again_what_timed_out_and_gets_30_minutes_anew() -> None:
    world = World()
    timed_out(world)
    again = world.stop("i", at("12:40:15"))
    assert (again.changes, again.orders) == (["i running>stopping user"], ["i:stop:3/1"])
    assert world.ticks(at("12:41"), at("13:10")).changes == []
    assert world.tick(at("13:11")).changes == ["i stopping>running stop_timed_out"]


def test_while_stopping_the_order_goes_out_once() -> None:
    world = World()
    launched(world)
    assert world.stop("i", at("12:02")).orders == ["i:stop:1/1"]
    assert world.ticks(at("12:03"), at("12:31")).orders == []


def test_destroy_is_sent_again_at_each_tick_until_teardown_but_not_in_its_first_minute() -> None:
    world = World()
    launched(world)
    assert world.destroy("i", at("12:05:10")).orders == ["i:destroy:1/1"]
    assert world.tick(at("12:05:59.999")).orders == []
    assert world.tick(at("12:06:02")).orders == ["i:destroy:2/2"]
    assert world.tick(at("12:06:03")).orders == []
    world.restart()
    assert world.tick(at("12:07:02")).orders == ["i:destroy:3/3"]
    assert world.destroy("i", at("12:08")).orders == []
    assert world.tick(at("12:08:02")).orders == ["i:destroy:4/4"]
    world.report("i", "teardown_finished", at("12:08:30"))
    assert world.tick(at("12:09:02")).orders == []


def test_create_start_and_release_are_sent_once() -> None:
    world = World()
    world.deploy("i", at("12:00"))
    assert world.ticks(at("12:01"), at("12:20")).orders == []
    world.report("i", "launch_failed", at("12:20:30"))
    assert world.ticks(at("12:21"), at("12:40")).orders == []
    halted(world, "j")
    world.start("j", at("12:41"))
    assert world.ticks(at("12:42"), at("12:50")).orders == []


def test_the_number_of_an_order_never_starts_anew_and_its_attempt_does() -> None:
    world = World()
    halted(world)
    world.start("i", at("12:04"))
    world.report("i", "start_refused", at("12:05"))
    assert world.start("i", at("12:06")).orders == ["i:start:2/1"]
    world.report("i", "workload_up", at("12:07"))
    assert world.stop("i", at("12:08")).orders == ["i:stop:2/1"]


@pytest.mark.parametrize("code", ["start_refused", "start_unreachable", "gpus_unavailable", "workload_lost"])
def test_a_start_that_came_to_nothing_can_be_asked_for_again(code: str) -> None:
    world = World()
    halted(world)
    world.start("i", at("12:10"))
    refused = world.report("i", code, at("12:11"), message=f"host says {code}")
    assert refused.changes == [f"i starting>stopped {code}"]
    assert (refused.told[0].error_code, refused.told[0].error_message) == (code, f"host says {code}")
    assert (world.row("i").error_code, world.meter("i")) == (code, "disk")
    again = world.start("i", at("12:12"))
    assert again.answer == "accepted"
    assert (world.row("i").error_code, world.row("i").error_message) == (None, None)  # it has left that state


def test_a_start_without_confirmation_times_out_after_30_minutes_and_the_late_workload_is_stopped() -> None:
    world = World()
    halted(world)
    world.start("i", at("12:10:00.001"))
    assert world.tick(at("12:40")).nothing
    late = world.tick(at("12:41"))
    assert late.changes == ["i starting>stopped start_timed_out"]
    assert late.told[0].error_code == "start_timed_out"
    up = world.report("i", "workload_up", at("12:45"))
    assert (up.changes, up.usage, up.orders) == ([], [], ["i:stop:2/2"])
    assert (world.state("i"), world.meter("i")) == ("stopped", "disk")
    assert world.row("i").error_code == "start_timed_out"
    assert world.report("i", "workload_up", at("12:45:01")).orders == ["i:stop:3/3"]
    assert world.report("i", "stop_confirmed", at("12:46")).ignored == 1
    assert world.start("i", at("12:47")).answer == "accepted"


def test_a_stop_confirmed_twice_counts_once() -> None:
    world = World()
    halted(world)
    twice = world.report("i", "stop_confirmed", at("12:03:30"))
    assert (twice.nothing, twice.ignored) == (True, 1)
    assert world.windows_opened("i", "disk") == 1


def test_a_report_for_a_destroyed_instance_changes_nothing() -> None:
    world = World()
    launched(world)
    world.destroy("i", at("12:02"))
    world.report("i", "teardown_finished", at("12:03"))
    late = world.report("i", "workload_up", at("12:04"))
    assert (late.nothing, late.ignored, late.dead) == (True, 1, None)


def test_a_report_for_an_unknown_instance_is_a_dead_letter() -> None:
    world = World()
    effect = world.report("nobody", "workload_up", at("12:00"))
    assert effect.dead is not None
    assert effect.dead.reason == "unknown_instance"
    assert effect.nothing


def test_workload_gone_for_a_running_instance_releases_its_gpus() -> None:
    world = World()
    launched(world)
    gone = world.report("i", "workload_gone", at("12:05"))
    assert (gone.changes, gone.orders) == (["i running>error workload_gone"], ["i:release_gpus:1/1"])
    assert gone.usage == [f"i:gpu:12:0{minute} 60000" for minute in (1, 2, 3, 4)]


@pytest.mark.parametrize(
    ("report", "to", "meter"),
    [("found_running", "running", "gpu"), ("workload_up", "running", "gpu"), ("found_held", "stopped", "disk")],
)
def test_the_platform_finds_the_workload_healthy_after_all(report: str, to: str, meter: str) -> None:
    world = World()
    launched(world)
    world.report("i", "workload_lost", at("12:05"))
    found = world.report("i", report, at("12:20"))
    assert found.changes == [f"i error>{to} {report}"]
    assert (world.meter("i"), world.row("i").error_code, world.row("i").error_message) == (meter, None, None)
    assert world.row("i").gpus_held == (to == "running")


def test_found_running_with_the_balance_down_is_stopped_at_once() -> None:
    world = World()
    launched(world)
    world.report("i", "workload_lost", at("12:05"))
    world.balance("0", at("12:06"))
    found = world.report("i", "found_running", at("12:20"))
    assert found.changes == ["i error>running found_running", "i running>stopping balance_empty"]
    assert found.orders == ["i:stop:1/1", "i:release_gpus:2/2"]
    assert (world.meter("i"), world.row("i").gpus_held) == ("none", False)


def test_a_stop_that_timed_out_is_forgotten_with_the_state_it_belongs_to() -> None:
    world = World()
    timed_out(world)
    world.report("i", "workload_lost", at("12:33"))
    world.report("i", "found_running", at("12:34"))
    assert world.tick(at("12:35")).orders == []
    assert world.row("i").error_code is None
    assert world.report("i", "stop_confirmed", at("12:36")).ignored == 1


def test_the_words_of_an_error_are_the_hosts_or_ours() -> None:
    world = World()
    launched(world)
    launched(world, "j")
    world.report("i", "workload_failed", at("12:05"), message="CUDA error 719")
    world.report("j", "workload_failed", at("12:05"))
    assert world.row("i").error_message == "CUDA error 719"
    assert world.row("j").error_message
    assert world.row("j").error_message != "workload_failed"


def test_a_job_that_ends_by_itself_is_an_error_without_costs_and_its_gpus_are_free() -> None:
    world = World()
    world.deploy("i", at("12:00"))
    world.report("i", "workload_up", at("12:01"))
    done = world.report("i", "workload_completed", at("12:06:00.500"))
    assert done.orders == ["i:release_gpus:1/1"]
    assert (world.state("i"), world.row("i").error_code) == ("error", "workload_completed")
    assert world.ticks(at("12:07"), at("12:30")).usage == []


def test_a_deploy_that_takes_two_minutes_is_not_billed_for_them_and_a_stopped_instance_is_every_minute() -> None:
    world = World()
    world.deploy("i", at("12:00"))
    assert world.ticks(at("12:01"), at("12:02")).usage == []
    world.report("i", "workload_up", at("12:02"))
    world.stop("i", at("12:03"))
    world.report("i", "stop_confirmed", at("12:04"))
    assert len(world.ticks(at("12:05"), at("13:04")).usage) == 60


def test_timeouts_survive_restarts() -> None:
    world = World()
    launched(world, "i")
    halted(world, "j")
    world.stop("i", at("12:04"))
    world.start("j", at("12:04"))
    world.deploy("k", at("12:04"))
    world.report("k", "launch_failed", at("12:05"))
    for minute in range(5, 34):
        world.restart()
        assert world.tick(at("12:00") + minute * MINUTE).changes == []
    world.restart()
    assert world.tick(at("12:34")).changes == [
        "i stopping>running stop_timed_out",
        "j starting>stopped start_timed_out",
    ]
    world.restart()
    assert world.tick(at("13:04:59.999")).changes == []
    world.restart()
    assert world.tick(at("13:05")).changes == ["k error>destroying error_expired"]


def test_events_said_twice_count_once() -> None:
    world = World()
    world.deploy("i", at("12:00"))
    world.sent_events = 100
    world.report("i", "workload_up", at("12:01"))
    world.stop("i", at("12:02"))
    world.sent_events = 100
    again = world.report("i", "stop_confirmed", at("12:03"))  # the event_id of the first
    assert (again.nothing, again.counts["duplicate", "host.reports"]) == (True, 1)


def test_a_command_repeated_gets_its_first_answer_and_changes_nothing() -> None:
    world = World()
    world.deploy("i", at("12:00"))
    world.sent_commands = 100
    first = world.stop("i", at("12:00:30"))
    world.report("i", "workload_up", at("12:01"))
    world.sent_commands = 100
    second = world.stop("i", at("12:02"))
    assert second.result == first.result
    assert (second.answer, second.nothing, world.state("i")) == ("ILLEGAL_TRANSITION", True, "running")


@pytest.mark.parametrize("name", ["start", "stop", "destroy"])
def test_an_instance_that_does_not_exist_is_not_found(name: str) -> None:
    world = World()
    effect = world.command(name, "i", at("12:00"))
    assert effect.answer == "NOT_FOUND"
    assert effect.result is not None
    assert effect.result.status == 404
    assert "i" not in world.accountant.store.org(ORG).instances


def test_a_suspended_org_may_stop_and_destroy_only() -> None:
    world = World()
    launched(world, "i")
    halted(world, "j")
    world.suspend(at("12:05"))
    assert world.deploy("k", at("12:06")).answer == "ORG_SUSPENDED"
    assert world.start("j", at("12:06")).answer == "ORG_SUSPENDED"
    assert world.start("nobody", at("12:06")).answer == "ORG_SUSPENDED"  # checked before NOT_FOUND
    assert world.stop("i", at("12:06")).answer == "accepted"
    assert world.destroy("j", at("12:06")).answer == "accepted"
    world.reinstate(at("12:07"))
    assert world.deploy("k", at("12:08")).answer == "accepted"
