"""Times on the wire convert exactly in both directions."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.times import MAX_TIME_MS, parse_any_rfc3339, parse_rfc3339, rfc3339

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


NOON = 1_795_953_600_000

ANY = [
    ("2026-11-29T12:00:00Z", NOON),
    ("2026-11-29T12:00:00.5Z", NOON + 500),
    ("2026-11-29T12:00:00.05Z", NOON + 50),
    ("2026-11-29T12:00:00.005Z", NOON + 5),
    ("2026-11-29T12:00:00+00:00", NOON),
    ("2026-11-29T12:00:00-00:00", NOON),
    ("2026-11-29T13:00:00+01:00", NOON),
    ("2026-11-29T06:30:00.250-05:30", NOON + 250),
    ("2026-11-30T11:59:00+23:59", NOON),
    ("2026-11-28T12:01:00-23:59", NOON),
    ("2024-02-29T00:00:00Z", 1_709_164_800_000),
    ("1970-01-01T00:00:00Z", 0),
    ("1969-12-31T23:59:59.999Z", -1),
    ("1970-01-01T00:00:00+01:00", -3_600_000),
    ("0001-01-01T00:00:00Z", -62_135_596_800_000),
    ("9999-12-31T23:59:59.999Z", MAX_TIME_MS),
    ("9999-12-31T23:59:59.999-00:01", MAX_TIME_MS + 60_000),
]


@pytest.mark.parametrize(("text", "ms"), ANY)
def test_any_form_that_the_contract_allows(text: str, ms: int) -> None:
    assert parse_any_rfc3339(text) == ms


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2026-11-29",
        "2026-11-29T12:00Z",
        "2026-11-29T12:00:00",
        "2026-11-29 12:00:00Z",
        "2026-11-29t12:00:00Z",
        "2026-11-29T12:00:00z",
        "2026-11-29T12:00:00.Z",
        "2026-11-29T12:00:00.0001Z",
        "2026-11-29T12:00:00,5Z",
        "2026-11-29T12:00:00 Z",
        " 2026-11-29T12:00:00Z",
        "2026-11-29T12:00:00Z\n",
        "2026-11-29T12:00:00+01",
        "2026-11-29T12:00:00+0100",
        "2026-11-29T12:00:00+24:00",
        "2026-11-29T12:00:00+01:60",
        "2026-11-29T12:00:00−01:00",
        "2026-11-29T12:00:00Z+01:00",
        "2026-11-29T12:00:60Z",
        "2016-12-31T23:59:60Z",
        "2026-11-29T12:60:00Z",
        "2026-11-29T24:00:00Z",
        "2026-02-29T12:00:00Z",
        "2026-00-29T12:00:00Z",
        "2026-11-31T12:00:00Z",
        "0000-01-01T00:00:00Z",
        "26-11-29T12:00:00Z",
        "12026-11-29T12:00:00Z",
        "-2026-11-29T12:00:00Z",
        "2026-W48-7T12:00:00Z",
        "2026-11-29T\u0661\u0662:00:00Z",
    ],
)
def test_no_other_form(text: str) -> None:
    with pytest.raises(ValueError, match="not a time like"):
        parse_any_rfc3339(text)


@given(st.datetimes(), st.integers(-1_439, 1_439), st.integers(0, 3))
def test_any_offset_agrees_with_datetime(time: datetime, offset_min: int, decimals: int) -> None:
    whole = time.replace(microsecond=time.microsecond // 10 ** (6 - decimals) * 10 ** (6 - decimals))
    fraction = f".{whole.microsecond:06}"[: decimals + 1] if decimals else ""
    sign, (hours, minutes) = ("-" if offset_min < 0 else "+"), divmod(abs(offset_min), 60)
    text = f"{whole:%H:%M:%S}{fraction}{sign}{hours:02}:{minutes:02}"
    since = whole.replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC) - timedelta(minutes=offset_min)
    assert parse_any_rfc3339(f"{whole.year:04}-{whole:%m-%d}T{text}") == since // timedelta(milliseconds=1)
