"""Rows to bytes and back, for the changelogs: compact JSON, a field for a field.

A million rows may be in memory, so what comes back shares its strings: an org's id is one object in all its rows.
"""

from typing import Any, Final, cast

import msgspec

from streams.billing.windows import Origin, Window
from streams.rules.rows import ROW_TYPES, Answer, Deployment, Instance, Org, Replica, Row, Seen

TYPES: Final[dict[str, Any]] = {row_type.TABLE: row_type for row_type in cast("tuple[Any, ...]", ROW_TYPES)}
"""The type of each table's rows."""

encode_row: Final = msgspec.json.Encoder().encode
"""Write a row."""

_DECODE: Final = {table: msgspec.json.Decoder(row_type).decode for table, row_type in TYPES.items()}


class RowReader:
    """Reads rows back from one partition's changelogs."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def read(self, table: str, value: bytes) -> Row:
        """Read what `encode_row` wrote of a row of `table`. Raises `msgspec.MsgspecError` for anything else."""
        row: Row = _DECODE[table](value)
        self._share(row)
        return row

    @staticmethod
    def split(key: bytes) -> tuple[str, str]:
        """Take a changelog key apart: the org's id, the row's id."""
        org_id, _, row_id = key.decode().partition("/")
        return org_id, row_id

    def _share(self, row: Row) -> None:
        known = self._known.setdefault
        row.org_id = known(row.org_id, row.org_id)
        match row:
            case Replica():
                row.deployment_id = known(row.deployment_id, row.deployment_id)
                if row.window is not None:
                    row.window.owner_id = row.replica_id
                    self._share_window(row.window)
            case Instance():
                row.gpu_type = known(row.gpu_type, row.gpu_type)
                row.image = known(row.image, row.image)
                row.mode = known(row.mode, row.mode)
                if row.window is not None:
                    row.window.owner_id = row.instance_id
                    self._share_window(row.window)
            case Window():
                row.owner_id = known(row.owner_id, row.owner_id)
                self._share_window(row)
            case Deployment():
                row.deployment_id = known(row.deployment_id, row.deployment_id)
                row.gpu_type = known(row.gpu_type, row.gpu_type)
                row.model = known(row.model, row.model)
                row.serving = known(row.serving, row.serving)
            case Seen():
                row.topic = known(row.topic, row.topic)
            case Org() | Answer():
                pass

    def _share_window(self, window: Window) -> None:
        known = self._known.setdefault
        window.org_id = known(window.org_id, window.org_id)
        window.profile = known(window.profile, window.profile)
        if window.deployment_id is not None:
            window.deployment_id = known(window.deployment_id, window.deployment_id)
        window.opened_by = self._share_origin(window.opened_by)
        if window.closed_by is not None:
            window.closed_by = self._share_origin(window.closed_by)

    def _share_origin(self, origin: Origin) -> Origin:
        return Origin(self._known.setdefault(origin.topic, origin.topic), origin.offset, origin.timestamp)
