"""Times on the wire convert exactly in both directions."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.times import MAX_TIME_MS, parse_rfc3339, rfc3339

TABLE = [
    (0, "1970-01-01T00:00:00.000Z"),
    (1, "1970-01-01T00:00:00.001Z"),
    (86_399_999, "1970-01-01T23:59:59.999Z"),
    (86_400_000, "1970-01-02T00:00:00.000Z"),
    (951_782_400_000, "2000-02-29T00:00:00.000Z"),
    (1_795_953_600_000, "2026-11-29T12:00:00.000Z"),
    (4_107_542_399_999, "2100-02-28T23:59:59.999Z"),
    (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
    (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
]


@pytest.mark.parametrize(("ms", "text"), TABLE)
def test_table(ms: int, text: str) -> None:
    assert rfc3339(ms) == text
    assert parse_rfc3339(text) == ms


@given(st.integers(0, MAX_TIME_MS))
def test_every_ms_agrees_with_datetime(ms: int) -> None:
    text = rfc3339(ms)
    assert datetime.fromisoformat(text) == datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)
    assert parse_rfc3339(text) == ms


@pytest.mark.parametrize("ms", [-1, MAX_TIME_MS + 1])
def test_other_years_are_refused(ms: int) -> None:
    with pytest.raises(ValueError, match="outside the years"):
        rfc3339(ms)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2026-11-29",
        "2026-11-29T12:00:00Z",
        "2026-11-29T12:00:00.000+00:00",
        "2026-11-29T12:00:00.000Z\n",
        "2026-11-29 12:00:00.000Z",
        "2026-02-29T12:00:00.000Z",
        "2026-11-29T24:00:00.000Z",
        "1969-12-31T23:59:59.999Z",
        "٢٠٢٦-11-29T12:00:00.000Z",
    ],
)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        parse_rfc3339(text)
