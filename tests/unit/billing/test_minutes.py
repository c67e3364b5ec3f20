"""Clock minutes (B3, B4)."""

import pytest

from streams.billing.minutes import cut, floor_minute

MINUTE = 60_000


@pytest.mark.parametrize(
    ("at", "start"),
    [(0, 0), (1, 0), (59_999, 0), (60_000, 60_000), (60_001, 60_000), (1_796_385_600_123, 1_796_385_600_000)],
)
def test_a_minute_starts_at_its_clock_minute(at: int, start: int) -> None:
    assert floor_minute(at) == start


@pytest.mark.parametrize(
    ("start", "end", "pieces"),
    [
        (0, 0, []),
        (0, 1, [(0, 1)]),
        (0, 60_000, [(0, 60_000)]),
        (0, 60_001, [(0, 60_000), (60_000, 60_001)]),
        (59_999, 60_000, [(59_999, 60_000)]),
        (59_999, 60_001, [(59_999, 60_000), (60_000, 60_001)]),
        (30_500, 150_250, [(30_500, 60_000), (60_000, 120_000), (120_000, 150_250)]),
        (20_000, 40_000, [(20_000, 40_000)]),
        (60_000, 0, []),
        (60_001, 60_000, []),
    ],
)
def test_pieces_end_at_clock_minutes_and_none_is_empty(start: int, end: int, pieces: list[tuple[int, int]]) -> None:
    assert list(cut(start, end, 60)) == pieces


def test_no_more_pieces_than_asked_for_oldest_first() -> None:
    assert list(cut(30_000, 10 * MINUTE, 3)) == [(30_000, 60_000), (60_000, 120_000), (120_000, 180_000)]
    assert list(cut(30_000, 10 * MINUTE, 0)) == []
