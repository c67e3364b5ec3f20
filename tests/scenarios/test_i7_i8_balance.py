"""I7, I8: the balance that runs out stops what runs, gives its GPUs to others, and after a day in debt destroys it."""

import pytest

from tests.unit.rules.instance_world import HOUR, MINUTE, Effect, World, at


def launched(world: World, instance_id: str = "i", **fields: bool) -> None:
    world.deploy(instance_id, at("12:00"), **fields)
    world.report(instance_id, "workload_up", at("12:01"))


def halted(world: World, instance_id: str = "i", **fields: bool) -> None:
    launched(world, instance_id, **fields)
    world.stop(instance_id, at("12:02"))
    world.report(instance_id, "stop_confirmed", at("12:03"))


@pytest.mark.parametrize("balance", ["0", "-0", "0.000", "-0.000000000000000001", "-20"])
def test_a_balance_at_zero_stops_what_runs_and_releases_its_gpus(balance: str) -> None:
    world = World()
    launched(world)
    empty = world.balance(balance, at("12:10:00.500"))
    assert empty.changes == ["i running>stopping balance_empty"]
    assert empty.orders == ["i:stop:1/1", "i:release_gpus:1/1"]
    assert len(empty.usage) == 10  # settled up to that millisecond
    assert empty.usage[-1] == "i:gpu:12:10 500"
    assert not world.row("i").gpus_held
    assert world.report("i", "stop_confirmed", at("12:11")).orders == []  # they are released already
    assert world.meter("i") == "disk"


@pytest.mark.parametrize("balance", ["0.000000000000000001", "1"])
def test_a_balance_above_zero_stops_nothing(balance: str) -> None:
    world = World()
    launched(world)
    halted(world, "j")
    assert world.balance(balance, at("12:10")).nothing
    assert world.row("j").gpus_held


def test_where_the_machine_does_not_support_it_gpus_stay() -> None:
    world = World()
    launched(world, "i", gpus_releasable=False)
    halted(world, "j", gpus_releasable=False)
    empty = world.balance("0", at("12:10"))
    assert empty.orders == ["i:stop:1/1"]
    assert world.report("i", "stop_confirmed", at("12:11")).orders == []
    assert world.row("i").gpus_held
    assert world.row("j").gpus_held


def test_stopped_instances_that_still_hold_their_gpus_release_them_once() -> None:
    world = World()
    halted(world)
    assert world.balance("0", at("12:10")).orders == ["i:release_gpus:1/1"]
    assert world.state("i") == "stopped"
    assert world.balance("-1", at("12:11")).nothing
    assert world.balance("5", at("12:12")).nothing
    assert world.balance("0", at("12:13")).nothing  # it holds none any more


def test_what_comes_into_stopped_later_releases_too() -> None:
    world = World()
    launched(world, "stopping")
    world.stop("stopping", at("12:09"))
    halted(world, "starting")
    world.start("starting", at("12:09"))
    halted(world, "refused")
    world.start("refused", at("12:09"))
    assert world.balance("0", at("12:10")).nothing  # neither runs nor is stopped
    assert world.report("stopping", "stop_confirmed", at("12:11")).orders == ["stopping:release_gpus:1/1"]
    assert world.report("refused", "start_refused", at("12:11")).orders == ["refused:release_gpus:1/1"]
    timeout = world.tick(at("12:39"))
    assert timeout.changes == ["starting starting>stopped start_timed_out"]
    assert timeout.orders == ["starting:release_gpus:1/1"]


@pytest.mark.parametrize("releasable", [True, False])
def test_what_reaches_running_while_it_is_empty_is_stopped_at_once(*, releasable: bool) -> None:
    world = World()
    world.deploy("i", at("12:00"), gpus_releasable=releasable)
    world.balance("0", at("12:01"))
    up = world.report("i", "workload_up", at("12:02"))
    assert up.changes == ["i creating>running workload_up", "i running>stopping balance_empty"]
    assert up.orders == ["i:stop:1/1", *(["i:release_gpus:1/1"] if releasable else [])]
    assert (up.usage, world.meter("i")) == ([], "none")
    assert world.row("i").ran


def test_gpus_are_held_again_from_the_next_running_on() -> None:
    world = World()
    launched(world)
    world.balance("0", at("12:10"))
    world.report("i", "stop_confirmed", at("12:11"))
    world.balance("1000", at("12:20"))
    world.start("i", at("12:21"))
    assert not world.row("i").gpus_held
    world.report("i", "workload_up", at("12:22"))
    assert world.row("i").gpus_held
    assert world.balance("0", at("12:30")).orders == ["i:stop:2/1", "i:release_gpus:2/2"]


def test_gpus_in_use_by_others_leave_the_instance_stopped() -> None:
    world = World()
    launched(world)
    world.balance("0", at("12:10"))
    world.report("i", "stop_confirmed", at("12:11"))
    world.balance("1000", at("12:20"))
    world.start("i", at("12:21"))
    refused = world.report("i", "gpus_unavailable", at("12:22"))
    assert refused.changes == ["i starting>stopped gpus_unavailable"]
    assert not world.row("i").gpus_held
    assert world.start("i", at("12:23")).answer == "accepted"


def test_a_stop_that_timed_out_runs_on_though_the_balance_is_empty() -> None:
    world = World()
    launched(world)
    world.balance("0", at("12:10"))
    back = world.tick(at("12:40"))
    assert back.changes == ["i stopping>running stop_timed_out"]
    assert back.orders == ["i:stop:2/2"]  # the pending one again, no new one
    assert (world.meter("i"), world.row("i").gpus_held) == ("gpu", True)
    assert world.balance("-1", at("12:41")).nothing
    confirmed = world.report("i", "stop_confirmed", at("12:42"))
    assert confirmed.changes == ["i running>stopping stop_confirmed", "i stopping>stopped stop_confirmed"]
    assert confirmed.orders == ["i:release_gpus:2/2"]


def test_a_user_may_stop_it_once_more_and_its_gpus_go_when_it_is_stopped() -> None:
    world = World()
    launched(world)
    world.balance("0", at("12:10"))
    world.tick(at("12:40"))
    assert world.stop("i", at("12:45")).orders == ["i:stop:3/1"]
    assert world.report("i", "stop_confirmed", at("12:46")).orders == ["i:release_gpus:2/2"]


def test_no_balance_heard_counts_as_zero_for_what_runs() -> None:
    world = World(None, gpu="0", disk="0")
    world.deploy("i", at("12:00"))
    assert world.report("i", "workload_up", at("12:01")).changes == [
        "i creating>running workload_up",
        "i running>stopping balance_empty",
    ]


def test_but_only_a_balance_that_was_heard_destroys() -> None:
    world = World(None, gpu="0", disk="0")
    world.deploy("i", at("12:00"))
    world.report("i", "workload_up", at("12:01"))
    world.report("i", "stop_confirmed", at("12:02"))
    assert world.tick(at("12:02") + 100 * HOUR).changes == []


def test_several_instances_are_stopped_in_the_order_of_their_ids() -> None:
    world = World()
    for name in ("c", "a", "b"):
        launched(world, name)
    empty = world.balance("0", at("12:10"))
    assert [change.split()[0] for change in empty.changes] == ["a", "b", "c"]
    assert empty.orders[::2] == ["a:stop:1/1", "b:stop:1/1", "c:stop:1/1"]


def test_an_old_sequence_is_ignored() -> None:
    world = World()
    launched(world)
    world.balance("500", at("12:05"), sequence=7)
    for old in (7, 6, -1):
        ignored = world.balance("0", at("12:06"), sequence=old)
        assert (ignored.nothing, ignored.ignored) == (True, 1)
    assert world.balance("0", at("12:07"), sequence=8).changes == ["i running>stopping balance_empty"]


def in_debt(world: World, balance: str, since: str = "12:10") -> None:
    """i stopped, e errored (lost, so that no hour ends it), balance down."""
    halted(world)
    launched(world, "e")
    world.report("e", "workload_lost", at("12:04"))
    world.balance(balance, at(since))


BOTH = ["e error>destroying balance_debt", "i stopped>destroying balance_debt"]


@pytest.mark.parametrize("balance", ["-35", "-35.00", "-35.000000000000000001", "-100000"])
def test_24_hours_at_minus_35_destroy_what_is_stopped_or_errored(balance: str) -> None:
    world = World()
    in_debt(world, balance)
    assert world.tick(at("1d 12:10") - 1).changes == []
    debt = world.tick(at("1d 12:10"))
    assert debt.changes == BOTH
    assert debt.orders == ["e:destroy:1/1", "i:destroy:1/1"]


@pytest.mark.parametrize("balance", ["-34.99", "-34.999999999999999999", "-1", "0"])
def test_short_of_minus_35_nothing_is_destroyed(balance: str) -> None:
    world = World()
    in_debt(world, balance)
    for day in range(1, 6):
        assert world.tick(at("12:10") + day * 24 * HOUR).changes == []


def test_minus_35_counts_when_it_is_there_and_the_24_hours_from_zero_on() -> None:
    world = World()
    in_debt(world, "0")
    world.balance("-34.99", at("1d 11:00"))
    assert world.tick(at("1d 12:10")).changes == []
    world.balance("-35", at("1d 15:00:30"))
    assert world.tick(at("1d 15:01")).changes == BOTH


def test_a_break_starts_the_24_hours_anew() -> None:
    world = World()
    in_debt(world, "-40")
    world.balance("0.01", at("1d 12:09"))
    world.balance("-40", at("1d 12:09:30"))
    assert world.tick(at("1d 12:10")).changes == []
    assert world.tick(at("2d 12:09:29.999")).changes == []
    world.restart()
    assert world.tick(at("2d 12:09:30")).changes == BOTH


def test_an_update_that_stays_down_is_no_break() -> None:
    world = World()
    in_debt(world, "-1")
    for hour in range(1, 25):
        world.balance(str(-2 * hour), at("12:10") + hour * HOUR - MINUTE)
    assert world.tick(at("1d 12:10")).changes == BOTH


def test_running_instances_are_never_destroyed_directly() -> None:
    world = World()
    launched(world)
    world.balance("-50", at("12:10"))
    assert world.tick(at("12:40")).changes == ["i stopping>running stop_timed_out"]
    for hour in range(1, 40):
        assert world.tick(at("12:40") + hour * HOUR).changes == []
    world.report("i", "stop_confirmed", at("2d 12:00"))
    assert world.tick(at("2d 12:01")).changes == ["i stopped>destroying balance_debt"]


def test_transitional_ones_wait_until_they_are_stopped_or_in_error() -> None:
    world = World()
    halted(world, "starting")
    world.deploy("creating", at("12:00"))
    world.balance("-50", at("12:05"))
    world.balance("1000", at("12:06"))
    world.start("starting", at("1d 12:20"))
    world.balance("-50", at("12:06:30"))
    # the start that timed out is judged first, and then the debt, in one tick
    effect = world.tick(at("1d 12:50"))
    assert effect.changes == ["starting starting>stopped start_timed_out", "starting stopped>destroying balance_debt"]
    assert world.state("creating") == "creating"
    world.report("creating", "launch_failed", at("1d 12:51"))
    assert world.tick(at("1d 12:52")).changes == ["creating error>destroying balance_debt"]


def test_an_expired_error_is_told_as_such_even_in_debt() -> None:
    world = World()
    in_debt(world, "-40")
    launched(world, "i")
    world.report("e", "workload_gone", at("12:20"))
    world.restart()
    assert world.tick(at("1d 12:10")).changes == ["e error>destroying error_expired", BOTH[1]]


def test_the_loop_of_an_org_that_runs_dry_and_tops_up() -> None:
    world = World("120")
    world.deploy("i", at("12:00"))
    world.report("i", "workload_up", at("12:01"))
    steps: list[Effect] = [
        world.balance("60", at("12:30")),
        world.balance("-0.20", at("13:13")),
        world.report("i", "stop_confirmed", at("13:14")),
    ]
    assert [effect.changes for effect in steps] == [
        [],
        ["i running>stopping balance_empty"],
        ["i stopping>stopped stop_confirmed"],
    ]
    disk_only = world.ticks(at("13:15"), at("14:14"))
    assert len([piece for piece in disk_only.usage if "disk" in piece]) == 60
    assert world.start("i", at("14:15")).answer == "INSUFFICIENT_BALANCE"
    world.balance("101", at("14:16"))
    assert world.start("i", at("14:17")).answer == "accepted"
    assert world.report("i", "workload_up", at("14:18")).changes == ["i starting>running workload_up"]
