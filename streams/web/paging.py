"""Lists a page at a time: in a fixed sequence, without sorting all rows at each request."""

import base64
import binascii
import json
from bisect import bisect_right, insort
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2s
from typing import Any, Generic, Protocol, TypeVar, cast

DEFAULT_LIMIT = 100
MAX_LIMIT = 1_000


class Dated(Protocol):
    """A row with the time of its creation."""

    @property
    def created_at(self) -> int:
        """When it was created, in ms."""

    @property
    def row_id(self) -> str:
        """Its id within its org and table."""


Item = TypeVar("Item")
Row = TypeVar("Row", bound=Dated)
Place = tuple[int, str]
"""Where an item is in its list: the sort key, a number and an id."""


class BadPage(ValueError):
    """`limit` or `cursor` can't be used; the message says what can."""


@dataclass(frozen=True, slots=True)
class Page(Generic[Item]):
    """The items of one page, and the place of the last one where more follow."""

    items: list[Item]
    last: Place | None


def page_of(items: Sequence[Item], place: Callable[[Item], Place], limit: int, after: Place | None) -> Page[Item]:
    """Return at most `limit` of `items`, which are sorted by `place`, after `after`."""
    start = 0 if after is None else bisect_right(items, after, key=place)
    found = list(items[start : start + limit])
    return Page(found, place(found[-1]) if start + limit < len(items) else None)


class SortedRows(Generic[Row]):
    """The rows of one table by (`created_at`, id), brought up to date with the table at each use.

    New rows are at the end of a dict, so an update goes back from there to the newest row that is known; rows that
    left are skipped, and removed once they are as many as those that stay.
    """

    def __init__(self, table: Mapping[str, Row]) -> None:
        self._table = cast("dict[str, Row]", table)
        self._places: list[Place] = []
        self._known: dict[str, Row] = {}

    def page(self, limit: int, after: Place | None, keep: Callable[[Row], bool]) -> Page[Row]:
        """Return at most `limit` rows after `after` for which `keep` is true."""
        self._update()
        found: list[Row] = []
        for row in self._from(after):
            if not keep(row):
                continue
            if len(found) == limit:
                return Page(found, place_of(found[-1]))
            found.append(row)
        return Page(found, None)

    def _from(self, after: Place | None) -> Iterator[Row]:
        start = 0 if after is None else bisect_right(self._places, after)
        last = after
        for position in range(start, len(self._places)):
            place = self._places[position]
            row = self._table.get(place[1])
            # A row that left and was created again may have two places.
            if row is not None and row.created_at == place[0] and place != last:
                yield row
            last = place

    def _update(self) -> None:
        fresh: list[Row] = []
        for row_id in reversed(self._table):
            row = self._table[row_id]
            if self._known.get(row_id) is row:
                break
            fresh.append(row)
        if len(self._places) + len(fresh) > 2 * len(self._table) or len(fresh) > len(self._places):
            self._known = dict(self._table)
            self._places = sorted(place_of(row) for row in self._table.values())
            return
        for row in fresh:
            self._known[row.row_id] = row
            insort(self._places, place_of(row))


class SortedTables:
    """The sorted rows of the tables that were asked for last."""

    _MOST = 512

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, str], tuple[Mapping[str, Any], SortedRows[Any]]] = OrderedDict()

    def of(self, org_id: str, name: str, table: Mapping[str, Row]) -> SortedRows[Row]:
        """Return the sorted rows of an org's `table`; sorted again when the table is another than the last time."""
        kept = self._kept.get((org_id, name))
        if kept is None or kept[0] is not table:
            kept = self._kept[org_id, name] = (table, SortedRows(table))
        self._kept.move_to_end((org_id, name))
        while len(self._kept) > self._MOST:
            self._kept.popitem(last=False)
        return kept[1]


def place_of(row: Dated) -> Place:
    """Return where a row is in the list of its table."""
    return row.created_at, row.row_id


def read_limit(text: str | None) -> int:
    """Return `?limit=`: 1 to 1,000, 100 where absent. Raises `BadPage`."""
    if not text:
        return DEFAULT_LIMIT
    if not (text.isascii() and text.isdigit() and len(text) < len(str(MAX_LIMIT)) + 1 and 1 <= int(text) <= MAX_LIMIT):
        raise BadPage(f"limit is a whole number from 1 to {MAX_LIMIT}")
    return int(text)


def write_cursor(path: str, place: Place | None) -> str | None:
    """Return a place in the list at `path` as an opaque, URL-safe word; null: there is no next page."""
    if place is None:
        return None
    return base64.urlsafe_b64encode(json.dumps([_tag(path), *place]).encode()).decode().rstrip("=")


def read_cursor(path: str, text: str | None) -> Place | None:
    """Return what `write_cursor` was passed, for the same list. Raises `BadPage`."""
    if not text:
        return None
    try:
        tag, at, row_id = json.loads(base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True))
    except (ValueError, TypeError, binascii.Error, RecursionError):
        tag = at = row_id = None
    if tag != _tag(path) or type(at) is not int or not isinstance(row_id, str):
        raise BadPage("cursor is the next of an earlier response of this list, unchanged; omit it for the first page")
    return at, row_id


def _tag(path: str) -> str:
    """Return what distinguishes the cursors of one list from those of others."""
    return blake2s(path.encode(), digest_size=4).hexdigest()
