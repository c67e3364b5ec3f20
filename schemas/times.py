"""Conversion between times on the wire (RFC 3339, UTC, milliseconds, `Z`) and integer ms since 1970."""

import re
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

MAX_TIME_MS: Final = 253_402_300_799_999
"""9999-12-31T23:59:59.999Z, the last time with a four-digit year."""

_DAY_MS: Final = 86_400_000
_EPOCH_ORDINAL: Final = datetime(1970, 1, 1, tzinfo=UTC).toordinal()
_SHAPE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z", re.ASCII)

_ANY_SHAPE: Final = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.([0-9]{1,3}))?"
    r"(?:Z|([+-])([01][0-9]|2[0-3]):([0-5][0-9]))",
    re.ASCII,
)


def is_time(ms: int) -> bool:
    """Whether `ms` since 1970 is in the range that `rfc3339` can write, 1970 to 9999."""
    return 0 <= ms <= MAX_TIME_MS


@lru_cache(maxsize=64)
def _date(day: int) -> str:
    return datetime.fromordinal(_EPOCH_ORDINAL + day).strftime("%Y-%m-%d")


@lru_cache(maxsize=65_536)
def rfc3339(ms: int) -> str:
    """Format ms since 1970 as `2026-11-29T12:00:00.000Z`. Raises `ValueError` before 1970 and after 9999.

    Cached, because the usage events of one tick share their times.
    """
    if not is_time(ms):
        msg = f"time {ms} ms is outside the years 1970 to 9999"
        raise ValueError(msg)
    day, ms = divmod(ms, _DAY_MS)
    seconds, ms = divmod(ms, 1_000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{_date(day)}T{hours:02}:{minutes:02}:{seconds:02}.{ms:03}Z"


def parse_rfc3339(text: str) -> int:
    """Return ms since 1970 of a time that `rfc3339` wrote. Raises `ValueError` for any other text."""
    if not _SHAPE.fullmatch(text):
        msg = f"{text!r} is not a time like 2026-11-29T12:00:00.000Z"
        raise ValueError(msg)
    second = datetime.fromisoformat(text[:19] + "+00:00")
    days = second.toordinal() - _EPOCH_ORDINAL
    if days < 0:
        msg = f"{text!r} is before 1970"
        raise ValueError(msg)
    in_day = (second.hour * 60 + second.minute) * 60 + second.second
    return days * _DAY_MS + in_day * 1_000 + int(text[20:23])


def parse_any_rfc3339(text: str) -> int:
    """Return ms since 1970 of a time with at most 3 decimals and any offset, as `2026-11-29T13:00:00.5+01:00`.

    Negative before 1970. Raises `ValueError` for any other text; a leap second is none.
    """
    found = _ANY_SHAPE.fullmatch(text)
    try:
        second = datetime.fromisoformat(f"{found[1]}+00:00") if found else None
    except ValueError:
        second = None
    if found is None or second is None:
        msg = "not a time like 2026-11-29T12:00:00Z or 2026-11-29T13:00:00.5+01:00"
        raise ValueError(msg)
    in_day_s = (second.hour * 60 + second.minute) * 60 + second.second
    offset_min = 0 if found[3] is None else (int(found[4]) * 60 + int(found[5])) * (-1 if found[3] == "-" else 1)
    whole_ms = (second.toordinal() - _EPOCH_ORDINAL) * _DAY_MS + in_day_s * 1_000
    return whole_ms + int((found[2] or "").ljust(3, "0")) - offset_min * 60_000
