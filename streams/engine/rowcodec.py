"""Encodes and decodes the rows in changelogs.

A record's key has the row's ids, `<org_id>/<row_id>`; its value is a JSON array of the other fields in their order,
which is part of the format: a new field comes last and has a default, which rows written before get. Fields that
follow from the ids, such as a window's owner, and derived fields are left out. A row takes a third of the bytes of an
object with all names and ids.

A million rows may be in memory, so decoded rows share their strings: an org's id is one object in all its rows.
"""

from collections.abc import Callable
from dataclasses import MISSING, Field, fields
from operator import attrgetter
from typing import Any, Final, cast, get_type_hints

import msgspec

from streams.billing.windows import DERIVED, Origin, Window
from streams.engine.fatal import Accident, AccidentError
from streams.meters import METERS
from streams.rules.rows import (
    ROW_TYPES,
    CommandMemory,
    DayUsage,
    Deployment,
    EventMemory,
    Instance,
    OperatorCommandMemory,
    Org,
    Replica,
    Row,
    UsedId,
)

TYPES: Final[dict[str, Any]] = {row_type.TABLE: row_type for row_type in ROW_TYPES}
"""The type of each table's rows."""

_IDS: Final[dict[type, tuple[str, ...]]] = {
    Org: ("org_id",),
    Deployment: ("org_id", "deployment_id"),
    Replica: ("org_id", "replica_id"),
    Instance: ("org_id", "instance_id"),
    Window: ("org_id", "window_id"),
    CommandMemory: ("org_id", "command_id"),
    OperatorCommandMemory: ("org_id", "command_id"),
    UsedId: ("org_id", "kind", "entity_id"),
    DayUsage: ("org_id", "day", "type", "profile"),
    EventMemory: ("org_id", "topic", "event_id"),
}
"""The fields that are in the key; they are also the first fields of a row."""

_IMPLIED: Final = frozenset(("owner_id", "deployment_id"))
"""The fields of a window that follow from its id and its meter."""

_SHARED: Final = frozenset(
    ("deployment_id", "gpu_type", "image", "mode", "model", "offer_id", "profile", "serving", "window_counts")
)
"""The fields whose values are the same in many rows."""

_encode: Final = msgspec.json.Encoder().encode
_astuple: Final = msgspec.structs.astuple


class _Format:
    """The format of a type of row. `take` returns a row's values; `shared`: the indexes of those that rows share."""

    def __init__(self, row_type: Any) -> None:
        left_out = {*_IDS[row_type], *(_IMPLIED if row_type is Window else ())}
        kept = [field for field in fields(row_type) if field.name not in left_out and DERIVED not in field.metadata]
        types = get_type_hints(row_type)
        self.names = tuple(field.name for field in kept)
        self.take = _taker(*self.names)
        array = msgspec.defstruct(
            f"{row_type.__name__}Values",
            [(field.name, types[field.name], *_default(field)) for field in kept],
            array_like=True,
            forbid_unknown_fields=True,
            gc=False,
        )
        self.fields = tuple(field.name for field in kept)
        self.shared = tuple(at for at, field in enumerate(kept) if field.name in _SHARED)
        self.decode: Callable[[bytes], Any] = msgspec.json.Decoder(array).decode


def _taker(*names: str) -> Callable[[Any], tuple[Any, ...]]:
    """Return an `attrgetter` that returns a tuple, even for one name."""
    take = attrgetter(*names)
    return take if len(names) > 1 else lambda row: (take(row),)


def _default(field: Field[Any]) -> tuple[Any, ...]:
    if field.default is not MISSING:
        return (field.default,)
    if field.default_factory is not MISSING:
        return (msgspec.field(default_factory=field.default_factory),)
    return ()


_FORMATS: Final = {table: _Format(row_type) for table, row_type in TYPES.items()}


_UNCREDITED: Final = ("owed_back", "owed_credits")
"""The last fields of a window; left out when they are empty, as in nearly every window."""

_take_window: Final = _FORMATS[Window.TABLE].take
_take_uncredited: Final = _taker(*_FORMATS[Window.TABLE].names[: -len(_UNCREDITED)])

assert _FORMATS[Window.TABLE].names[-len(_UNCREDITED) :] == _UNCREDITED


def encode_row(row: Row) -> bytes:
    """Return a row's value for its changelog; `row_key` returns the key."""
    if isinstance(row, Window):
        return _encode(_take_window(row) if row.owed_back else _take_uncredited(row))
    return _encode(_FORMATS[row.TABLE].take(row))


class RowReader:
    """Decodes the rows of one partition's changelogs."""

    def __init__(self) -> None:
        self._known: dict[Any, Any] = {}

    def read(self, table: str, key: bytes, value: bytes) -> Row:
        """Decode a row of `table`.

        Raises `AccidentError` for a row with more fields than this version knows, and `msgspec.MsgspecError` for an
        invalid row.
        """
        row_type, form = TYPES[table], _FORMATS[table]
        try:
            decoded = form.decode(value)
        except msgspec.ValidationError as error:
            _refuse_newer(table, key, value, len(form.fields), error)
            raise
        org_id, *ids = _ids(row_type, key)
        org_id = self._known.setdefault(org_id, org_id)
        if row_type is Window:
            return self._window(org_id, ids[0], decoded)
        values = [*_astuple(decoded)]
        for at in form.shared:
            if (shared := values[at]) is not None:
                values[at] = self._known.setdefault(shared, shared)
        return cast("Row", row_type(org_id, *ids, *values))

    def read_event(self, key: bytes, value: bytes) -> tuple[str, str, int]:
        """Decode an event memory: its org, its row's id, and its time in ms. Raises as `read` does."""
        try:
            at_ms: int = _FORMATS[EventMemory.TABLE].decode(value).at
        except msgspec.ValidationError as error:
            _refuse_newer(EventMemory.TABLE, key, value, 1, error)
            raise
        org_id, *ids = _ids(EventMemory, key)
        return self._known.setdefault(org_id, org_id), "/".join(ids), at_ms

    @staticmethod
    def split(key: bytes) -> tuple[str, str]:
        """Split a changelog key into the org's id and the row's id."""
        org_id, _, row_id = key.decode().partition("/")
        return org_id, row_id

    def _window(self, org_id: str, window_id: str, decoded: Any) -> Window:
        """Build a window, with the owner and the deployment that follow from its id."""
        share = self._known.setdefault
        meter = METERS[decoded.meter]
        owner_id = window_id.rpartition(".w")[0]
        if meter.id_part:
            owner_id = owner_id.removesuffix(f".{meter.id_part}")
        deployment_id = owner_id.rpartition("-r")[0] if meter.owner == "replica" else None
        profile, billed_until, opened_at = decoded.profile, decoded.billed_until, decoded.opened_at
        topic, offset, timestamp = decoded.opened_by
        return Window(
            org_id,
            window_id,
            meter.name,
            share(owner_id, owner_id),
            None if deployment_id is None else share(deployment_id, deployment_id),
            share(profile, profile),
            decoded.quantity,
            opened_at,
            # A tick moves the watermarks of all windows to the same minute.
            share(billed_until, billed_until),
            decoded.last_health_check,
            # A window nearly always opens at the time of its record: then both share one integer.
            Origin(share(topic, topic), offset, opened_at if timestamp == opened_at else timestamp),
            decoded.ended_at,
            decoded.closed_by,
            decoded.billed_ms,
            decoded.owed_back,
            decoded.owed_credits,
        )


def _refuse_newer(table: str, key: bytes, value: bytes, known: int, error: Exception) -> None:
    found = msgspec.json.decode(value)
    if isinstance(found, list) and len(found) > known:
        msg = (
            f"the row {key.decode()!r} of {table} has {len(found)} fields, and this version of Obol knows {known}; "
            "start the version that wrote it, or a newer one"
        )
        raise AccidentError(Accident.NEWER_FORMAT, msg) from error


def _ids(row_type: Any, key: bytes) -> list[str]:
    """Split a key into the fields of `_IDS`."""
    parts, names = key.decode().split("/"), _IDS[row_type]
    # The key of an org's row has the org's id twice.
    if len(parts) != max(len(names), 2):
        msg = f"{key!r} is not the key of a row of {row_type.TABLE}: expected the ids {names}"
        raise msgspec.ValidationError(msg)
    return parts[: len(names)]
