"""Ticks of the wall clock: 2 s after each minute starts."""

from __future__ import annotations

import pytest

from streams.engine.ticks import next_tick_ms

T0 = 1_764_417_600_000  # a whole minute


@pytest.mark.parametrize(
    ("now_ms", "due_ms"),
    [
        (T0, T0 + 2_000),
        (T0 + 1_999, T0 + 2_000),
        (T0 + 2_000, T0 + 62_000),
        (T0 + 2_001, T0 + 62_000),
        (T0 + 59_999, T0 + 62_000),
        (T0 + 60_000, T0 + 62_000),
    ],
)
def test_the_next_tick_is_two_seconds_into_a_minute(now_ms: int, due_ms: int) -> None:
    assert next_tick_ms(now_ms) == due_ms
