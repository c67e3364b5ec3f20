"""Clock minutes: where time is cut for billing (rules B3, B4). All times are UTC milliseconds."""

from collections.abc import Iterator

from streams.limits import MINUTE_MS


def floor_minute(at_ms: int) -> int:
    """The start of the clock minute that holds `at_ms`."""
    return at_ms - at_ms % MINUTE_MS


def cut(start_ms: int, end_ms: int, most: int) -> Iterator[tuple[int, int]]:
    """[start, end) in pieces that end at clock minutes, oldest first, at most `most` of them; none when it is empty."""
    while start_ms < end_ms and most > 0:
        piece_end = min(floor_minute(start_ms) + MINUTE_MS, end_ms)
        yield start_ms, piece_end
        start_ms = piece_end
        most -= 1
