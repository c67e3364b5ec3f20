"""Record headers: which of them a record keeps."""

from collections.abc import Iterable
from typing import Final

Header = tuple[str, bytes | None]

REROUTED: Final = "obol-rerouted"
"""The header of a record that was published again, to the partition of its org."""

MAX_HEADERS_BYTES: Final = 16 * 1024
"""Of names and values together."""

MAX_HEADERS: Final = 1_000
"""Each takes room in a record, even without a name and a value."""

_OWN_PREFIX: Final = "obol-"


def kept(headers: Iterable[Header]) -> tuple[Header, ...]:
    """Return `headers` while they are within the bounds, else only those that have a meaning (contract, "Conventions").

    `obol-rerouted` does not count. Where those with a meaning are over the bounds, too, there are none.
    """
    found = tuple(headers)
    if _is_within_bounds(found):
        return found
    own = tuple(header for header in found if header[0].startswith(_OWN_PREFIX))
    return own if _is_within_bounds(own) else ()


def _is_within_bounds(headers: tuple[Header, ...]) -> bool:
    if len(headers) > MAX_HEADERS:
        return False
    sizes = (len(name.encode()) + len(value or b"") for name, value in headers if name != REROUTED)
    return sum(sizes) <= MAX_HEADERS_BYTES
