"""The rows of a partition by table and key, as plain values, for Faust's tables and for the table views.

A key is `<org_id>/<row_id>`, as in the changelog; that of `positions` is the partition's number.
"""

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, Final, Protocol

import msgspec

from streams.billing.windows import DERIVED
from streams.engine import position as positions
from streams.engine.position import Position
from streams.engine.rowcodec import TYPES
from streams.rules.rows import EventMemory
from streams.rules.store import OrgRows, RowStore

DESCRIPTIONS: Final = {
    name: " ".join(row_type.__doc__.split("\n\n")[0].split())
    for name, row_type in {**TYPES, positions.TABLE: Position}.items()
}
"""Every table's name, with the summary line of its type of row."""


class Partition(Protocol):
    """The interface of a partition that is read here."""

    @property
    def partition(self) -> int:
        """The partition's number."""

    @property
    def store(self) -> RowStore:
        """The rows."""

    @property
    def position(self) -> Position:
        """The offsets, times and counts."""


def keys(part: Partition, table: str) -> Iterator[str]:
    """Iterate over the keys of a partition's rows in `table`."""
    if table == positions.TABLE:
        yield str(part.partition)
        return
    for org_id, rows in part.store.orgs.items():
        for row_id in rows.table(table):
            yield f"{org_id}/{row_id}"


def count(part: Partition, table: str) -> int:
    """Return how many rows a partition has in `table`."""
    return 1 if table == positions.TABLE else sum(len(rows.table(table)) for rows in part.store.orgs.values())


def row(part: Partition, table: str, key: str) -> dict[str, Any] | None:
    """Return the row of that key as plain JSON values, or None when the partition has none."""
    if table == positions.TABLE:
        return msgspec.to_builtins(part.position) if key == str(part.partition) else None
    org_id, _, row_id = key.partition("/")
    rows = part.store.orgs.get(org_id)
    return None if rows is None else org_row(rows, table, row_id)


def org_row(rows: OrgRows, table: str, row_id: str) -> dict[str, Any] | None:
    """Return an org's row of that id as plain JSON values, or None when there is none."""
    found = rows.table(table).get(row_id)
    if found is None:
        return None
    if table == EventMemory.TABLE:
        topic, _, event_id = row_id.partition("/")
        found = EventMemory(rows.org.org_id, topic, event_id, found)
    plain: dict[str, Any] = _plain(found)
    return plain


def _plain(value: Any) -> Any:
    """Return dataclasses and named tuples as dicts, enums as their values."""
    if is_dataclass(value):
        kept = (field.name for field in fields(value) if DERIVED not in field.metadata)
        return {name: _plain(getattr(value, name)) for name in kept}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {_plain(key): _plain(item) for key, item in value.items()}
    if hasattr(value, "_asdict"):
        return _plain(value._asdict())
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value
