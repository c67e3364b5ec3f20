"""Clock minutes: the unit in which time is billed (rules B3, B4). All times are UTC milliseconds."""

from collections.abc import Iterator

from streams.limits import MINUTE_MS


def floor_minute(at_ms: int) -> int:
    """Return the start of the clock minute that contains `at_ms`."""
    return at_ms - at_ms % MINUTE_MS


def cut(start_ms: int, end_ms: int, at_most: int) -> Iterator[tuple[int, int]]:
    """Yield [start, end) in pieces that end at clock minutes, oldest first, `at_most` of them; none if it is empty."""
    while start_ms < end_ms and at_most > 0:
        piece_end = min(floor_minute(start_ms) + MINUTE_MS, end_ms)
        yield start_ms, piece_end
        start_ms = piece_end
        at_most -= 1
