"""What the rows keep, and what they forget."""

from tests.world.world import World

PRICE = "11:00 price dedicated.h100.1x 2.50"


def test_an_org_of_which_nothing_is_left_costs_no_memory() -> None:
    """A command for an org that nobody knows is answered, remembered for 24 h (C1), and forgotten with its org."""
    world = World()
    world.do("12:00 nobody: stop d1", "12:00 nobody: create d1 min=-1", "12:00 known: balance 5", "12:00 gone: suspend")
    world.do("12:30 gone: reinstate")
    world.do("1d 11:59:59.999 tick")
    assert world.orgs() == ["gone", "known", "nobody"]
    world.do("1d 12:00 tick")
    assert world.orgs() == ["gone", "known"]
    world.do("1d 12:30 tick")
    assert world.orgs() == ["known"]


def test_an_org_with_anything_owed_or_suspended_stays() -> None:
    world = World()
    world.set(retention_h=1)
    world.do(
        PRICE,
        "12:00 create d1 min=0",
        "12:01 healthy d1-r1",
        "12:02 price dedicated.h100.1x none",
        "12:03 stop d1",
        "12:03 bolt: suspend",
    )
    world.do("9d 12:00 tick")
    assert world.orgs() == ["acme", "bolt"]
    world.do("9d 12:01 price dedicated.h100.1x 1", "9d 12:02 tick", "9d 12:03 bolt: reinstate", "10d 12:03 tick")
    assert world.orgs() == ["acme"], "used ids are remembered, and what was billed by day"
    world.do("500d 12:00 tick")
    assert world.orgs() == []
