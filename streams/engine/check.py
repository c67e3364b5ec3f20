"""The debug check: rows, changelog and indexes agree after every applied record. On with `OBOL_DEBUG_CHECKS`.

A row that changed without being listed for the commit is lost at the next restart, and a wrong derived index bills
wrong; neither shows at once. Tests run with this check, benchmarks and production without it.
"""

import os
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Final

from streams.engine.rowcodec import TYPES, RowReader, encode_row
from streams.rules.rows import EventMemory, Org, Row, row_key
from streams.rules.store import OrgRows, RowStore, event_memory

ROWS_PER_RECORD: Final = int(os.environ.get("OBOL_DEBUG_CHECKS") or 0)
"""About so many rows are checked per applied record: a check takes microseconds per row. 0: the check is off."""

ENABLED: Final = ROWS_PER_RECORD > 0


class _Recorder(dict[Row, None]):
    """A set of changed rows that also lists those added since the last check."""

    def __init__(self) -> None:
        super().__init__()
        self.added: list[Row] = []

    def __setitem__(self, row: Row, value: None) -> None:
        super().__setitem__(row, value)
        self.added.append(row)


class RowCheck:
    """Compares one store with a model of its changelogs."""

    def __init__(self, store: RowStore) -> None:
        self._store = store
        self._image: dict[str, dict[tuple[str, bytes], bytes]] = defaultdict(dict)
        self._unchecked: dict[str, int] = defaultdict(int)
        self._since_expiry_check = 0
        store.changed, store.removed = _Recorder(), _Recorder()

    def restored(self, table: str, key: bytes, value: bytes | None) -> None:
        """Add a record of a changelog from which the store is restored."""
        image = self._image[key.partition(b"/")[0].decode(errors="replace")]
        if value is None:
            image.pop((table, key), None)
        else:
            image[table, key] = value

    def after_record(self, org_ids: Iterable[str] | None) -> None:
        """Compare the orgs that a record may have changed (None: all). Raises `AssertionError` for a difference."""
        for rows in (self._store.removed, self._store.changed):
            assert isinstance(rows, _Recorder)
            for row in rows.added:
                image = self._image[row.org_id]
                if rows is self._store.changed and row in rows:
                    image[row.TABLE, row_key(row)] = encode_row(row)
                elif rows is self._store.removed:
                    image.pop((row.TABLE, row_key(row)), None)
            rows.added.clear()
        checked = list({*self._image, *self._store.orgs} if org_ids is None else org_ids)
        for org_id in checked:
            self._unchecked[org_id] += 1 + ROWS_PER_RECORD // len(checked)
            if self._unchecked[org_id] >= len(self._image[org_id]):
                self._unchecked[org_id] = 0
                self.check_org(org_id)

    def check_org(self, org_id: str) -> None:
        """Compare one org's rows with their changelogs, and its indexes with those rebuilt from the changelogs."""
        image, rows = self._image[org_id], self._store.orgs.get(org_id)
        if rows is None:
            assert not image, f"org {org_id} has no rows in memory, but its changelogs have {sorted(image)}"
            return
        _same(org_id, "row", _encoded(rows), image)
        rebuilt, reader = RowStore(self._store.retention_ms), RowReader()
        for table in TYPES:
            for (of, key), value in image.items():
                if of == table:
                    rebuilt.restore(reader.read(table, key, value))
        again = rebuilt.org(org_id)
        _same(org_id, "index", rows.derived(), again.derived())
        # One org's entries are looked for among those of all orgs, so it is done in proportion.
        self._since_expiry_check += len(image) + 1
        if self._since_expiry_check >= self._store.expiry_entries:
            self._since_expiry_check = 0
            expiring, expected = self._store.expiring(org_id), rebuilt.expiring(org_id)
            assert expiring == expected, f"org {org_id}: expiring {expiring ^ expected}"


def _new_org(org_id: str) -> tuple[tuple[str, bytes], bytes]:
    """Return the key and the value of the row of a new org."""
    org = Org(org_id)
    return (Org.TABLE, row_key(org)), encode_row(org)


def _encoded(rows: OrgRows) -> dict[tuple[str, bytes], bytes]:
    org_id, found = rows.org.org_id, {}
    for table in TYPES:
        for row_id, value in rows.table(table).items():
            row = event_memory(org_id, row_id, value) if table == EventMemory.TABLE else value
            found[table, row_key(row)] = encode_row(row)
    return found


def _same(org_id: str, what: str, live: Mapping[Any, object], kept: Mapping[Any, object]) -> None:
    new_key, new_value = _new_org(org_id)
    for key in live.keys() | kept.keys():
        if key == new_key and {live.get(key), kept.get(key)} <= {None, new_value}:
            continue  # in memory every org has a row, in the changelog only one that was changed
        if live.get(key) != kept.get(key):
            msg = f"org {org_id}, {what} {key}: {live.get(key)!r} in memory, {kept.get(key)!r} by the changelogs"
            raise AssertionError(msg)
