"""The debug check finds what the store would lose or get wrong: each test changes rows without the store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from streams.engine.shard import ShardError
from tests.world.world import World

if TYPE_CHECKING:
    from collections.abc import Callable

    from streams.rules.store import OrgRows


def running() -> World:
    world = World()
    world.do("11:00 price dedicated.h100.1x 2.50", "12:00 create d1 min=1", "12:00 healthy d1-r1")
    return world


def test_an_untouched_store_passes() -> None:
    running().do("12:01 heartbeat d1-r1", "12:02 tick")


def forget_a_change(rows: OrgRows) -> None:
    object.__setattr__(rows.replicas["d1-r1"], "changes_made", 9)


def forget_a_row(rows: OrgRows) -> None:
    rows._tables["replicas"].pop("d1-r1")


def count_the_burn_twice(rows: OrgRows) -> None:
    rows.units["dedicated.h100.1x"] += 1


def lose_a_window_that_is_due(rows: OrgRows) -> None:
    rows._due["replica"].clear()


def lose_a_created_deployment(rows: OrgRows) -> None:
    rows.created.clear()


def keep_a_closed_window_open(rows: OrgRows) -> None:
    object.__setattr__(rows.replicas["d1-r1"], "open_windows", ())


@pytest.mark.parametrize(
    ("plant", "named"),
    [
        (forget_a_change, "row ('replicas', b'acme/d1-r1')"),
        (forget_a_row, "row ('replicas', b'acme/d1-r1'): None in memory"),
        (count_the_burn_twice, "index units"),
        (lose_a_window_that_is_due, "index due"),
        (lose_a_created_deployment, "index created"),
        (keep_a_closed_window_open, "index open_windows"),
    ],
)
def test_an_inconsistency_is_found_at_the_next_record(plant: Callable[[Any], None], named: str) -> None:
    world = running()
    plant(world.driver.store().org("acme"))
    with pytest.raises((AssertionError, ShardError)) as caught:
        world.do("12:01 balance 5")
    assert named in str(caught.value)


def test_a_row_that_was_not_listed_is_found() -> None:
    world = running()
    store = world.driver.store()
    replica = store.org("acme").replicas["d1-r1"]
    store.change(replica, changes_made=9)
    store.changed.pop(replica)
    store.changed.added.clear()  # type: ignore[attr-defined]  # the recorder of the check
    with pytest.raises(AssertionError, match="row"):
        world.do("12:01 balance 5")


def test_a_rule_cannot_change_a_row_without_the_store() -> None:
    replica = running().driver.store().org("acme").replicas["d1-r1"]
    with pytest.raises(AttributeError):
        replica.changes_made = 9  # type: ignore[misc]  # rows are frozen
