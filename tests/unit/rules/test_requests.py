"""A request changes a row only when a rule needs it (P6, P7)."""

import pytest

from tests.world.world import World

PRICE = "11:00 price dedicated.h100.1x 2.50"


def written(world: World) -> int:
    return world.rows_written("deployments") + world.rows_written("replicas")


@pytest.mark.parametrize(
    ("options", "requests", "rows"),
    [
        # Without an idle timeout, the time of the last request is not needed.
        ("", "12:01..12:02 request d1 every 10ms", 0),
        # Idle some day: one row, however many requests a commit holds.
        ("idle=600", "12:01..12:02 request d1 every 10ms", 1),
        # Another request of the same millisecond changes nothing.
        ("idle=600", "12:00 request d1", 0),
    ],
)
def test_requests_write_no_more_rows_than_a_rule_needs(options: str, requests: str, rows: int) -> None:
    world = World()
    world.do(PRICE, f"12:00 create d1 {options}")
    before = written(world)
    assert world.do(requests) == []
    assert written(world) - before == rows


def test_the_latest_request_counts_whatever_the_order() -> None:
    world = World()
    world.do(PRICE, "12:00 create d1 idle=600", "12:05 request d1", "12:04 request d1")
    assert world.do("12:14:59.999 tick") == []
    assert "paused" in {message.value.get("to") for message in world.do("12:15 tick")}


def test_requests_to_one_deployment_do_not_keep_another_from_idling() -> None:
    world = World()
    world.do(PRICE, "12:00 create d1 idle=600", "12:00 create d2 idle=600", "12:05 request d2")
    changes = [message.value for message in world.do("12:10 tick") if message.topic == "lifecycle.changes"]
    assert [(change["id"], change["to"]) for change in changes] == [("d1", "paused"), ("d1-r1", "stopped")]
