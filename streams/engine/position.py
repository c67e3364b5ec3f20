"""The position of a partition: a row that is committed with all others, so that counts survive a crash exactly.

It also has what the partition's rows depend on, so that a worker can compare the cluster with it.
"""

from typing import Any, Final

import msgspec

from streams.engine.fatal import Accident, AccidentError
from streams.engine.merge import NEVER

TABLE: Final = "positions"
KEY: Final = b"position"


FORMAT: Final = 2
"""The format of this row and of all others. A worker refuses a greater one. 1: formats were not numbered."""


class Installation(msgspec.Struct, frozen=True):
    """The settings that must not change once there are rows."""

    partitions: int
    currency: str
    timestamps: str


class Position(msgspec.Struct):
    """What was applied so far. Times are in ms; topics are without namespace.

    `offsets`: the next offset of each topic. `times`: the greatest timestamp of each topic. `as_of`: of all of them.
    `latest_tick`: of the applied ticks; dead letters of the clock's topic don't count (I12, R6).
    `counts`: by kind and detail: how many records were `read` and `applied` (by topic), were `ignored` (by
    reason) or `duplicate` (by topic), became `dead` letters (by reason), were `rerouted` (by topic), were
    `out_of_order` (by topic); and the counts of the rules. Of the inputs themselves: records `lost` (deleted
    before they were read, by topic) and `resets` accepted (by topic).

    Written with each commit: `format`; the `installation`; by table, where its changelog ends after this transaction
    (`changelogs`); the ids of the input topics, where the broker gives them (`topics`); the offset up to which prices
    were read (`prices`); the `worker` that wrote it, and its `settings` that may differ between workers only while
    they are being changed.
    """

    format: int = 1

    as_of: int = NEVER
    latest_tick: int = NEVER
    offsets: dict[str, int] = msgspec.field(default_factory=dict)
    times: dict[str, int] = msgspec.field(default_factory=dict)
    counts: dict[str, dict[str, int]] = msgspec.field(default_factory=dict)
    installation: Installation | None = None
    changelogs: dict[str, int] = msgspec.field(default_factory=dict)
    topics: dict[str, str] = msgspec.field(default_factory=dict)
    prices: int = 0
    worker: str = ""
    settings: dict[str, Any] = msgspec.field(default_factory=dict)

    def add(self, kind: str, detail: str, by: int = 1) -> None:
        """Add to a count."""
        if by:
            details = self.counts.setdefault(kind, {})
            details[detail] = details.get(detail, 0) + by

    def flat_counts(self) -> dict[tuple[str, str], int]:
        """Return all counts by (kind, detail)."""
        return {(kind, detail): by for kind, details in self.counts.items() for detail, by in details.items()}

    def count(self, kind: str, detail: str | None = None) -> int:
        """Return the count of one detail, or of a whole kind."""
        details = self.counts.get(kind, {})
        return sum(details.values()) if detail is None else details.get(detail, 0)


class _Numbered(msgspec.Struct):
    format: int = 1


_ENCODER: Final = msgspec.json.Encoder()
_FORMAT_DECODER: Final = msgspec.json.Decoder(_Numbered)
_DECODER: Final = msgspec.json.Decoder(Position)


def encode_position(position: Position) -> bytes:
    """Encode a position, in the newest format."""
    position.format = FORMAT
    return _ENCODER.encode(position)


def decode_position(value: bytes) -> Position:
    """Decode a position.

    Raises `AccidentError` for a newer format, and `msgspec.MsgspecError` for an invalid position.
    """
    if (found := _FORMAT_DECODER.decode(value).format) > FORMAT:
        msg = (
            f"the rows have format {found}, and this version of Obol knows formats up to {FORMAT}; "
            "start the version that wrote them, or a newer one"
        )
        raise AccidentError(Accident.NEWER_FORMAT, msg)
    return _DECODER.decode(value)
