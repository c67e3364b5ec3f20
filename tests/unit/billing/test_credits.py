"""Which stretches are owed back (B13). Times are ms from the opening of a window."""

import pytest

from streams.billing.credits import Stretch, not_yet_owed, union
from streams.billing.windows import Origin, Window


def window(billed_ms: int, *owed_back: Stretch) -> Window:
    return Window(
        org_id="acme",
        window_id="d1-r1.w1",
        meter="dedicated",
        owner_id="d1-r1",
        deployment_id="d1",
        profile="dedicated.h100.1x",
        quantity=1,
        opened_at=0,
        billed_until=billed_ms,
        last_health_check=0,
        opened_by=Origin("execlet.progress", 0, 0),
        billed_ms=billed_ms,
        owed_back=owed_back,
    )


@pytest.mark.parametrize(
    ("start", "end", "found"),
    [
        # Billed: [0, 100). Owed back: [20, 30) and [50, 60).
        (0, 100, [(0, 20), (30, 50), (60, 100)]),
        (-5, 200, [(0, 20), (30, 50), (60, 100)]),
        (20, 30, []),
        (22, 28, []),
        (20, 31, [(30, 31)]),
        (19, 30, [(19, 20)]),
        (30, 50, [(30, 50)]),
        (25, 55, [(30, 50)]),
        (10, 10, []),
        (100, 200, []),
        (99, 200, [(99, 100)]),
    ],
)
def test_what_is_not_yet_owed_has_no_empty_stretch(start: int, end: int, found: list[Stretch]) -> None:
    assert not_yet_owed(window(100, (20, 30), (50, 60)), start, end) == found


def test_nothing_is_owed_of_a_window_without_a_bill() -> None:
    assert not_yet_owed(window(0), 0, 100) == []


@pytest.mark.parametrize(
    ("stretches", "merged"),
    [
        ([], ()),
        ([(0, 10), (10, 20)], ((0, 20),)),
        ([(0, 10), (11, 20)], ((0, 10), (11, 20))),
        ([(30, 40), (0, 10)], ((0, 10), (30, 40))),
        ([(0, 40), (10, 20)], ((0, 40),)),
        ([(0, 20), (10, 40)], ((0, 40),)),
    ],
)
def test_adjacent_and_overlapping_stretches_are_one(stretches: list[Stretch], merged: tuple[Stretch, ...]) -> None:
    assert union(stretches) == merged
