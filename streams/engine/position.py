"""Where a partition stands: a row of its own, committed with the others, so that counts are as exact as bills."""

from typing import Final

import msgspec

from streams.engine.merge import NEVER

TABLE: Final = "positions"
KEY: Final = b"position"


class Position(msgspec.Struct):
    """What was applied so far. Times are in ms; topics are without namespace.

    `offsets`: the next offset of each topic. `times`: the greatest timestamp of each topic. `as_of`: of all of them.
    `latest_tick`: of the ticks that were applied, which dead letters of the clock's topic are not (I12, R6).
    `counts`: by kind and detail: how many records were `read` and `applied` (by topic), passed over as `ignored` (by
    reason) or `duplicate` (by topic), became `dead` letters (by reason), were `rerouted` (by topic), came
    `out_of_order` (by topic); and what the rules count besides.
    """

    as_of: int = NEVER
    latest_tick: int = NEVER
    offsets: dict[str, int] = msgspec.field(default_factory=dict)
    times: dict[str, int] = msgspec.field(default_factory=dict)
    counts: dict[str, dict[str, int]] = msgspec.field(default_factory=dict)

    def add(self, kind: str, detail: str, by: int = 1) -> None:
        """Count."""
        if by:
            details = self.counts.setdefault(kind, {})
            details[detail] = details.get(detail, 0) + by

    def flat_counts(self) -> dict[tuple[str, str], int]:
        """Give every count by (kind, detail)."""
        return {(kind, detail): by for kind, details in self.counts.items() for detail, by in details.items()}

    def count(self, kind: str, detail: str | None = None) -> int:
        """Give the count of one detail, or of a whole kind."""
        details = self.counts.get(kind, {})
        return sum(details.values()) if detail is None else details.get(detail, 0)


_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final = msgspec.json.Decoder(Position)


def encode_position(position: Position) -> bytes:
    """Write the row."""
    return _ENCODER.encode(position)


def decode_position(value: bytes) -> Position:
    """Read what `encode_position` wrote."""
    return _DECODER.decode(value)
