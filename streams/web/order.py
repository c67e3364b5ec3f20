"""Lists: oldest first, a page at a time, without sorting all rows at each request."""

import base64
import binascii
import json
from bisect import bisect_right, insort
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar, cast

DEFAULT_LIMIT = 100
MAX_LIMIT = 1_000


class Dated(Protocol):
    """A row that knows when it came to be."""

    created_at: int

    @property
    def row_id(self) -> str:
        """Its id within its org and table."""


Item = TypeVar("Item", bound=Dated)
Place = tuple[int, str]


class BadPage(ValueError):
    """`limit` or `cursor` is no good; the message says what is."""


@dataclass(frozen=True, slots=True)
class Page(Generic[Item]):
    """Rows of one page, and the cursor of the next one; None: it is the last."""

    items: list[Item]
    next: str | None


class Ordered(Generic[Item]):
    """The rows of one table, in order of (`created_at`, id), kept up with the table at each look.

    New rows stand at the end of a dict, so a look goes back from there to the newest row that is known; rows that
    left are skipped, and swept out once they are as many as those that stay.
    """

    def __init__(self, table: Mapping[str, Item]) -> None:
        self._table = cast("dict[str, Item]", table)
        self._places: list[Place] = []
        self._known: dict[str, Item] = {}

    def page(self, limit: int, after: Place | None, keep: Callable[[Item], bool]) -> Page[Item]:
        """At most `limit` rows after `after` that `keep` holds for."""
        self._catch_up()
        found: list[Item] = []
        for row in self._from(after):
            if not keep(row):
                continue
            if len(found) == limit:
                last = found[-1]
                return Page(found, write_cursor((last.created_at, last.row_id)))
            found.append(row)
        return Page(found, None)

    def _from(self, after: Place | None) -> Iterator[Item]:
        start = 0 if after is None else bisect_right(self._places, after)
        last = after
        for position in range(start, len(self._places)):
            place = self._places[position]
            row = self._table.get(place[1])
            # A row that left and came again may have two places.
            if row is not None and row.created_at == place[0] and place != last:
                yield row
            last = place

    def _catch_up(self) -> None:
        fresh: list[Item] = []
        for row_id in reversed(self._table):
            row = self._table[row_id]
            if self._known.get(row_id) is row:
                break
            fresh.append(row)
        if len(self._places) + len(fresh) > 2 * len(self._table) or len(fresh) > len(self._places):
            self._known = dict(self._table)
            self._places = sorted((row.created_at, row.row_id) for row in self._table.values())
            return
        for row in fresh:
            self._known[row.row_id] = row
            insort(self._places, (row.created_at, row.row_id))


class Orders:
    """The orders of the tables that were asked for last."""

    _MOST = 512

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, str], tuple[Mapping[str, Any], Ordered[Any]]] = OrderedDict()

    def of(self, org_id: str, name: str, table: Mapping[str, Item]) -> Ordered[Item]:
        """The order of an org's `table`; begun anew when the table is another than the last time."""
        kept = self._kept.get((org_id, name))
        if kept is None or kept[0] is not table:
            kept = self._kept[org_id, name] = (table, Ordered(table))
        self._kept.move_to_end((org_id, name))
        while len(self._kept) > self._MOST:
            self._kept.popitem(last=False)
        return kept[1]


def read_limit(text: str | None) -> int:
    """`?limit=`: 1 to 1,000, 100 where absent."""
    if not text:
        return DEFAULT_LIMIT
    if not (text.isascii() and text.isdigit() and len(text) < len(str(MAX_LIMIT)) + 1 and 1 <= int(text) <= MAX_LIMIT):
        raise BadPage(f"limit is a whole number from 1 to {MAX_LIMIT}")
    return int(text)


def write_cursor(place: Place) -> str:
    """A place in a list as an opaque, URL-safe word."""
    return base64.urlsafe_b64encode(json.dumps(place).encode()).decode().rstrip("=")


def read_cursor(text: str | None) -> Place | None:
    """What `write_cursor` wrote."""
    if not text:
        return None
    try:
        at, row_id = json.loads(base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True))
    except (ValueError, TypeError, binascii.Error, RecursionError):
        at = row_id = None
    if not isinstance(at, int) or not isinstance(row_id, str):
        raise BadPage("cursor is the next of an earlier answer, unchanged; leave it out to begin anew")
    return at, row_id
