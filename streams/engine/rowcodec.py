"""Rows to bytes and back, for the changelogs.

A record's key holds the row's ids, `<org_id>/<row_id>`; its value is a JSON array of the other fields in their order,
which is part of the format: a new field comes last and has a default, which rows written before it get. A row that may
have an open window is a pair, itself and the window or null, and `window` stays the last field of its type; the window
leaves out what the row says anyway. So a running replica takes a third of the bytes of an object with every name and
id, and a tick writes, and a restart reads, one for each.

A million rows may be in memory, so what comes back shares its strings: an org's id is one object in all its rows.
"""

from collections.abc import Callable
from dataclasses import MISSING, Field, fields
from operator import attrgetter
from typing import Any, Final, cast, get_type_hints

import msgspec

from streams.billing.windows import Origin, Window
from streams.rules.rows import ROW_TYPES, Answer, Deployment, Instance, Org, Replica, Row, Seen

TYPES: Final[dict[str, Any]] = {row_type.TABLE: row_type for row_type in cast("tuple[Any, ...]", ROW_TYPES)}
"""The type of each table's rows."""

_IDS: Final[dict[type, tuple[str, ...]]] = {
    Org: ("org_id",),
    Deployment: ("org_id", "deployment_id"),
    Replica: ("org_id", "replica_id"),
    Instance: ("org_id", "instance_id"),
    Window: ("org_id", "window_id"),
    Answer: ("org_id", "command_id"),
    Seen: ("org_id", "topic", "event_id"),
}
"""The fields that a key holds, which come first in a row, too."""

_OWNING: Final = (Replica.TABLE, Instance.TABLE)
"""The tables whose rows may have an open window."""

_OWNERS: Final = ("org_id", "owner_id", "deployment_id")
"""What an open window has in common with the row that it stands in."""

_SHARED: Final = frozenset(
    ("deployment_id", "gpu_type", "image", "mode", "model", "offer_id", "owner_id", "profile", "serving")
)

_encode: Final = msgspec.json.Encoder().encode
_astuple: Final = msgspec.structs.astuple


class _Format:
    """How one type of row, or of an open window, is written: `take` gives its values, `array` is the type of theirs.

    `shared`: the places of the values that rows share.
    """

    def __init__(self, row_type: Any, *left_out: str) -> None:
        kept = [field for field in fields(row_type) if field.name not in left_out]
        types = get_type_hints(row_type)
        self.take = _taker(*(field.name for field in kept))
        self.array = msgspec.defstruct(
            f"{row_type.__name__}Values",
            [(field.name, types[field.name], *_default(field)) for field in kept],
            array_like=True,
            forbid_unknown_fields=True,
            gc=False,
        )
        self.shared = tuple(at for at, field in enumerate(kept) if field.name in _SHARED)


def _taker(*names: str) -> Callable[[Any], tuple[Any, ...]]:
    """`attrgetter`, which gives no tuple where there is but one name."""
    take = attrgetter(*names)
    return take if len(names) > 1 else lambda row: (take(row),)


def _default(field: Field[Any]) -> tuple[Any, ...]:
    if field.default is not MISSING:
        return (field.default,)
    if field.default_factory is not MISSING:
        return (msgspec.field(default_factory=field.default_factory),)
    return ()


_FORMATS: Final = {table: _Format(row_type, *_IDS[row_type], "window") for table, row_type in TYPES.items()}
_OPEN: Final = _Format(Window, *_OWNERS)


def _decoder(table: str) -> Callable[[bytes], Any]:
    array: Any = _FORMATS[table].array
    if table in _OWNING:
        array = tuple[array, _OPEN.array | None]  # type: ignore[name-defined]
    return msgspec.json.Decoder(array).decode


_DECODE: Final = {table: _decoder(table) for table in TYPES}


def encode_row(row: Row) -> bytes:
    """Write a row's values; its ids are `row_key`'s."""
    values = _FORMATS[row.TABLE].take(row)
    if isinstance(row, Replica | Instance):
        return _encode((values, None if row.window is None else _OPEN.take(row.window)))
    return _encode(values)


class RowReader:
    """Reads rows back from one partition's changelogs."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def read(self, table: str, key: bytes, value: bytes) -> Row:
        """Read a row of `table` from what `row_key` and `encode_row` wrote.

        Raises `msgspec.MsgspecError` for anything else.
        """
        row_type = TYPES[table]
        found = _DECODE[table](value)
        found, window = found if table in _OWNING else (found, None)
        org_id, *ids = _ids(row_type, key)
        row: Any = row_type(self._shared(org_id), *ids, *self._values(found, _FORMATS[table]))
        if window is not None:
            row.window = self._open_window(row, window)
        elif row_type is Window:
            self._share_origins(row)
        return cast("Row", row)

    @staticmethod
    def split(key: bytes) -> tuple[str, str]:
        """Take a changelog key apart: the org's id, the row's id."""
        org_id, _, row_id = key.decode().partition("/")
        return org_id, row_id

    def _open_window(self, owner: Replica | Instance, found: Any) -> Window:
        window_id, meter, *rest = self._values(found, _OPEN)
        deployment_id = owner.deployment_id if type(owner) is Replica else None
        window = Window(owner.org_id, window_id, meter, owner.row_id, deployment_id, *rest)
        self._share_origins(window)
        return window

    def _values(self, found: Any, form: _Format) -> list[Any]:
        values = [*_astuple(found)]
        for at in form.shared:
            if (word := values[at]) is not None:
                values[at] = self._shared(word)
        return values

    def _share_origins(self, window: Window) -> None:
        window.opened_by = self._share_origin(window.opened_by)
        if window.closed_by is not None:
            window.closed_by = self._share_origin(window.closed_by)

    def _share_origin(self, origin: Origin) -> Origin:
        return Origin(self._shared(origin.topic), origin.offset, origin.timestamp)

    def _shared(self, word: str) -> str:
        return self._known.setdefault(word, word)


def _ids(row_type: Any, key: bytes) -> list[str]:
    """Take a key apart into the fields of `_IDS`."""
    parts, names = key.decode().split("/"), _IDS[row_type]
    # An org's row is its org's only one, so its key says its id twice.
    if len(parts) != max(len(names), 2):
        msg = f"{key!r} is not the key of a row of {row_type.TABLE}: expected the ids {names}"
        raise msgspec.ValidationError(msg)
    return parts[: len(names)]
