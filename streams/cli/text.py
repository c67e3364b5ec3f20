"""Text for terminals: escaping, times and durations."""

import json
import re
import unicodedata
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final

from schemas.times import is_time, rfc3339
from streams.cli.failure import EXIT_USAGE, Failure

_AGO: Final = re.compile(r"([0-9]{1,9})(ms|s|m|h|d)")
_MS: Final = timedelta(milliseconds=1)
_UNIT_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def printable(text: str) -> str:
    """Replace control, bidirectional and other invisible characters by JSON escapes, which a terminal does not act on.

    Single-line JSON stays JSON with the same meaning.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(_escaped(char) if unicodedata.category(char)[0] in "CZ" and char != " " else char for char in text)


def _escaped(char: str) -> str:
    return json.dumps(char)[1:-1]


def parse_time(text: str, option: str, now_ms: Callable[[], int]) -> int:
    """Return ms since 1970 for an RFC 3339 time, a number of ms, `now`, or an age such as `90s`. Raises `Failure`."""
    if text == "now":
        return now_ms()
    if age := _AGO.fullmatch(text):
        return max(0, now_ms() - int(age[1]) * _UNIT_MS[age[2]])
    if text.isascii() and text.isdigit():
        ms = int(text)
    else:
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            moment = None
        if moment is None or moment.tzinfo is None:
            msg = (
                f"{option} {printable(text)!r} is not a time: give RFC 3339 with a zone (2026-11-29T12:00:00Z), "
                f"milliseconds since 1970, or an age such as 10m"
            )
            raise Failure(msg, EXIT_USAGE)
        ms = (moment.astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // _MS
    if not is_time(ms):
        raise Failure(f"{option} {printable(text)!r} is outside the years 1970 to 9999", EXIT_USAGE)
    return ms


def time_text(ms: int) -> str:
    """Return a time as RFC 3339, or as `<ms> ms` if it is out of range."""
    return rfc3339(ms) if is_time(ms) else f"{ms} ms"


def duration_text(ms: int) -> str:
    """Return an exact duration such as `2 d 3 h 4 min 5.250 s`, without the parts that are 0."""
    days, rest = divmod(abs(ms), _UNIT_MS["d"])
    hours, rest = divmod(rest, _UNIT_MS["h"])
    minutes, rest = divmod(rest, _UNIT_MS["m"])
    seconds, millis = divmod(rest, 1_000)
    second = f"{seconds}.{millis:03}" if millis else f"{seconds}" if seconds else ""
    parts = ((days, "d"), (hours, "h"), (minutes, "min"), (second, "s"))
    return ("-" if ms < 0 else "") + (" ".join(f"{number} {unit}" for number, unit in parts if number) or "0 s")
