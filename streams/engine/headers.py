"""Record headers: which of them are kept."""

from collections.abc import Iterable
from typing import Final

Header = tuple[str, bytes | None]

REROUTED: Final = "obol-rerouted"
"""The header of a rerouted record."""

MAX_HEADERS_BYTES: Final = 16 * 1024
"""The most bytes of names and values together."""

MAX_HEADERS: Final = 1_000
"""Each takes bytes in a record, even without a name and a value."""

_OWN_PREFIX: Final = "obol-"


def kept(headers: Iterable[Header]) -> tuple[Header, ...]:
    """Return `headers` if they are within the bounds, else only Obol's own (contract, "Conventions").

    `obol-rerouted` does not count. If Obol's own are over the bounds, too, none are returned.
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
