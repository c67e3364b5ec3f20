"""Times in views: always RFC 3339, for any number of milliseconds."""

from schemas.times import MAX_TIME_MS, rfc3339


def time_text(ms: int) -> str:
    """Return a time as the contract writes it. One before 1970 or after 9999 is shown as the first or the last one."""
    return rfc3339(min(max(ms, 0), MAX_TIME_MS))


def time_or_null(ms: int | None) -> str | None:
    """Return a time as the contract writes it, or null."""
    return None if ms is None else time_text(ms)
