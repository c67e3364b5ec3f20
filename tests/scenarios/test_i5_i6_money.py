"""I5, I6: how many instances an org may hold, and the hour of its whole burn that deploying and starting need."""

import pytest

from schemas.commands import CreateDeployment
from schemas.progress import Progress
from streams.billing.burn import burn_per_hour
from streams.billing.money import to_atto
from tests.unit.rules.instance_world import MINUTE, ORG, Effect, World, at


def launched(world: World, instance_id: str, now: str = "12:00") -> None:
    world.deploy(instance_id, at(now))
    world.report(instance_id, "workload_up", at(now) + 1)


def halted(world: World, instance_id: str, now: str = "12:00") -> None:
    launched(world, instance_id, now)
    world.stop(instance_id, at(now) + 2)
    world.report(instance_id, "stop_confirmed", at(now) + 3)


def burn(world: World, now: str) -> int:
    return burn_per_hour(world.accountant.store.org(ORG).units, world.prices, at(now))


def refusal(effect: Effect) -> tuple[str, int, str]:
    assert effect.result is not None
    assert effect.nothing
    return effect.result.code or "", effect.result.status, effect.result.message


def test_the_twenty_sixth_instance_is_one_too_many() -> None:
    world = World()
    for n in range(1, 26):
        assert world.deploy(f"i{n}", at("12:00") + n).answer == "accepted"
    code, status, message = refusal(world.deploy("i26", at("12:01")))
    assert (code, status) == ("INSTANCE_LIMIT", 409)
    assert "25" in message
    assert "i26" in message


def test_every_state_but_destroyed_counts_towards_the_25() -> None:
    world = World()
    for n in range(1, 26):
        launched(world, f"i{n}")
    world.report("i1", "workload_lost", at("12:01"))  # error
    world.stop("i2", at("12:01"))  # stopping
    world.stop("i3", at("12:01"))
    world.report("i3", "stop_confirmed", at("12:02"))  # stopped
    world.destroy("i4", at("12:03"))  # destroying
    assert world.deploy("new", at("12:04")).answer == "INSTANCE_LIMIT"
    world.report("i4", "teardown_finished", at("12:05"))
    assert world.deploy("new", at("12:06")).answer == "accepted"
    assert world.deploy("newer", at("12:07")).answer == "INSTANCE_LIMIT"


def test_the_limit_is_of_one_org_and_is_checked_before_price_and_money() -> None:
    world = World("0")
    world.balance("100000", at("11:00"))
    for n in range(1, 26):
        world.deploy(f"i{n}", at("12:00"))
    world.balance("0", at("12:01"))
    assert world.deploy("i26", at("12:02"), gpu_type="unheard-of").answer == "INSTANCE_LIMIT"


def test_the_seed_has_an_hour_of_everything() -> None:
    """GPU and disk of what runs, starts or is created, the disk of what is stopped, GPU and disk of the new one."""
    world = World()
    world.price("instance.h100.8x", "1000")
    launched(world, "running")
    world.deploy("creating", at("12:00"), disk_gb=200)
    halted(world, "starting")
    world.start("starting", at("12:01"))
    halted(world, "stopped")
    launched(world, "stopping")
    world.stop("stopping", at("12:01"))
    launched(world, "error")
    world.report("error", "workload_failed", at("12:01"))
    launched(world, "destroying")
    world.destroy("destroying", at("12:01"))
    # running 100 + 1, creating 100 + 2, starting 100 + 1, stopped 1; the others are free
    assert burn(world, "12:02") == to_atto("305")
    # and the new one: 1000 + 5
    world.balance("1309.999999999999999999", at("12:02"))
    code, status, message = refusal(world.deploy("new", at("12:03"), gpu_type="h100", gpu_count=8, disk_gb=500))
    assert (code, status) == ("INSUFFICIENT_BALANCE", 402)
    assert "1310" in message
    assert "1309.999999999999999999" in message
    world.balance("1310", at("12:04"))
    assert world.deploy("new", at("12:05"), gpu_type="h100", gpu_count=8, disk_gb=500).answer == "accepted"
    assert burn(world, "12:06") == to_atto("1310")


@pytest.mark.parametrize(("balance", "answer"), [("101", "accepted"), ("100.99", "INSUFFICIENT_BALANCE")])
def test_exactly_one_hour_is_enough_and_a_cent_less_is_not(balance: str, answer: str) -> None:
    assert World(balance).deploy("i", at("12:00")).answer == answer


@pytest.mark.parametrize(("balance", "answer"), [("202", "accepted"), ("201.99", "INSUFFICIENT_BALANCE")])
def test_a_start_counts_the_disk_once(balance: str, answer: str) -> None:
    world = World()
    launched(world, "other")  # 101 an hour
    halted(world, "i")  # 1 an hour; started 101
    world.balance(balance, at("12:05"))
    start = world.start("i", at("12:06"))
    assert start.answer == answer
    if answer == "INSUFFICIENT_BALANCE":
        _, status, message = refusal(start)
        assert status == 402
        assert "202" in message
        assert "201.99" in message
        assert world.state("i") == "stopped"


def test_two_starts_race_for_one_hours_money() -> None:
    world = World()
    halted(world, "i")
    halted(world, "j")
    world.balance("102", at("12:05"))  # one of them running, and the other's disk: 101 + 1
    first, second = world.start("i", at("12:06")), world.start("j", at("12:06"))
    assert first.answer == "accepted"
    code, status, message = refusal(second)
    assert (code, status) == ("INSUFFICIENT_BALANCE", 402)
    assert "202" in message
    assert "102" in message.replace("202", "")
    assert (world.state("i"), world.state("j")) == ("starting", "stopped")


def test_two_deploys_race_too() -> None:
    world = World("150")
    assert world.deploy("i", at("12:00")).answer == "accepted"
    assert world.deploy("j", at("12:00")).answer == "INSUFFICIENT_BALANCE"
    world.report("i", "launch_failed", at("12:01"))  # free again
    assert world.deploy("j", at("12:02")).answer == "accepted"


@pytest.mark.parametrize(
    ("gpu", "disk", "gb", "hour"),
    [
        ("0.1", "0.2", 1, "0.3"),
        ("0.000000000000000001", "0", 1, "0.000000000000000001"),
        ("999999999999999999.999999999999999999", "0", 1, "999999999999999999.999999999999999999"),
        ("1.10", "0.000000000000000007", 65_536, "1.100000000000458752"),
        ("3", "0.333333333333333333", 3, "3.999999999999999999"),
    ],
)
def test_prices_are_exact(gpu: str, disk: str, gb: int, hour: str) -> None:
    world = World(hour, gpu=gpu, disk=disk)
    assert world.deploy("i", at("12:00"), disk_gb=gb).answer == "accepted"
    assert burn(world, "12:01") == to_atto(hour)


@pytest.mark.parametrize(
    ("gpu", "disk", "gb", "short"),
    [
        ("0.1", "0.2", 1, "0.299999999999999999"),
        ("0.000000000000000001", "0", 1, "0"),
        ("999999999999999999.999999999999999999", "0", 1, "999999999999999999.999999999999999998"),
        ("1.10", "0.000000000000000007", 65_536, "1.100000000000458751"),
    ],
)
def test_the_smallest_amount_short_is_short(gpu: str, disk: str, gb: int, short: str) -> None:
    world = World(short, gpu=gpu, disk=disk)
    code, _, message = refusal(world.deploy("i", at("12:00"), disk_gb=gb))
    assert code == "INSUFFICIENT_BALANCE"
    assert short in message


def test_no_balance_heard_counts_as_zero() -> None:
    world = World(None)
    code, _, message = refusal(world.deploy("i", at("12:00")))
    assert code == "INSUFFICIENT_BALANCE"
    assert "101" in message
    assert " 0" in message
    free = World(None, gpu="0", disk="0")
    assert free.deploy("i", at("12:00")).answer == "accepted"


@pytest.mark.parametrize(("gpu", "disk", "named"), [(None, "0.01", "instance.a100.1x"), ("100", None, "disk")])
def test_an_unpriced_profile_is_refused_before_money(gpu: str | None, disk: str | None, named: str) -> None:
    code, status, message = refusal(World("0", gpu=gpu, disk=disk).deploy("i", at("12:00")))
    assert (code, status) == ("UNPRICED_PROFILE", 422)
    assert named in message


@pytest.mark.parametrize("removed", ["instance.a100.1x", "disk"])
def test_a_start_needs_both_prices_too_and_stop_and_destroy_need_none(removed: str) -> None:
    world = World()
    halted(world, "i")
    launched(world, "j")
    world.price(removed, None, at("12:05"))
    assert world.start("i", at("12:06")).answer == "UNPRICED_PROFILE"
    assert world.stop("j", at("12:06")).answer == "accepted"
    assert world.destroy("i", at("12:06")).answer == "accepted"


def test_anything_else_without_a_price_counts_nothing() -> None:
    world = World()
    world.price("instance.h100.1x", "500", at("00:00"))
    world.deploy("h", at("12:00"), gpu_type="h100")
    world.balance("102", at("12:01"))  # h's disk and the new one
    assert world.deploy("i", at("12:02")).answer == "INSUFFICIENT_BALANCE"
    world.price("instance.h100.1x", None, at("12:03"))
    assert world.deploy("i", at("12:04")).answer == "accepted"


def test_the_price_of_the_commands_own_time_counts() -> None:
    world = World("101")
    world.price("instance.a100.1x", "100.01", at("12:05"))
    assert world.deploy("late", at("12:05")).answer == "INSUFFICIENT_BALANCE"
    assert world.deploy("early", at("12:04:59.999")).answer == "accepted"


def test_running_dedicated_replicas_belong_to_the_burn() -> None:
    world = World()
    world.price("dedicated.h100.1x", "40")
    create = CreateDeployment(
        command_id="d", org_id=ORG, deployment_id="d", model="m", gpu_type="h100", gpu_count=1, min_replicas=2
    )
    world.apply(create, at("12:00"))
    world.balance("101", at("12:00"))
    assert burn(world, "12:01") == 0  # pending replicas are free
    world.apply(Progress(event_id="p", org_id=ORG, replica_id="d-r1", status="RUNNING", message="healthy"), at("12:01"))
    assert burn(world, "12:01") == to_atto("40")
    assert world.deploy("i", at("12:02")).answer == "INSUFFICIENT_BALANCE"
    world.balance("141", at("12:03"))
    assert world.deploy("i", at("12:04")).answer == "accepted"
    world.apply(Progress(event_id="q", org_id=ORG, replica_id="d-r1", status="VM_CRASH"), at("12:05"))
    assert burn(world, "12:06") == to_atto("101")


@pytest.mark.parametrize("balance", ["0", "-1000"])
def test_stopping_and_destroying_never_need_money(balance: str) -> None:
    world = World()
    launched(world, "i")
    world.stop("i", at("12:01"))
    world.tick(at("12:31"))  # a stop that timed out may be asked for again
    world.balance(balance, at("12:32"))
    assert world.state("i") == "running"
    assert world.stop("i", at("12:33")).answer == "accepted"
    assert world.destroy("i", at("12:34")).answer == "accepted"


def test_the_burn_is_kept_through_restarts_and_equals_its_fresh_sum_at_every_tick() -> None:
    world = World()
    for n in range(1, 11):
        launched(world, f"i{n}")
        world.stop(f"i{n}", at("12:01") + n)
    for minute in range(2, 36):
        if minute % 3 == 0:
            world.report(f"i{minute // 4 + 1}", "stop_confirmed", at("12:00") + minute * MINUTE)
        world.tick(at("12:00") + minute * MINUTE)
        if minute % 7 == 0:
            world.restart()
    # i1 to i8 were confirmed up to 12:30; i9 and i10 timed out at 12:32, and i9 was confirmed at 12:33
    assert [world.state(f"i{n}") for n in range(1, 11)] == ["stopped"] * 9 + ["running"]
    assert burn(world, "12:40") == to_atto("110")


def test_a_refusal_says_what_it_is_about_and_what_would_mend_it() -> None:
    world = World("150")
    launched(world, "i")
    messages = [
        refusal(effect)[2]
        for effect in (
            world.deploy("i", at("12:01")),
            world.deploy("j", at("12:01")),
            world.deploy("k", at("12:01"), gpu_type="h100", gpu_count=2),
            world.stop("nobody", at("12:01")),
        )
    ]
    assert messages == [
        "instance i is running already; deploy_instance needs an id never used before",
        (
            "instance j does not exist; deploy_instance needs a balance of one hour of everything, 202, and the "
            "balance of org acme is 150: top it up, or stop something"
        ),
        (
            "instance k does not exist; deploy_instance needs a price for instance.h100.2x and there is none: publish "
            "one on croesus.prices"
        ),
        "instance nobody is not known in org acme; stop_instance needs one that is",
    ]
