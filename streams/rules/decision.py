"""What a record does, for one place (the engine) to carry out: changed rows, outputs, counts, words for the log."""

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from schemas.base import Wire
from streams.billing.windows import Window
from streams.rules.rows import Row


class Output(NamedTuple):
    """A message for an outbound topic (without namespace); key `org_id`, timestamp the time of the cause."""

    topic: str
    org_id: str
    timestamp: int
    message: Wire | bytes


class Charge(NamedTuple):
    """One piece of a window to be billed: a usage event, still without words, since a tick makes 100,000 of them."""

    window: Window
    start_ms: int
    end_ms: int
    timestamp: int


class Note(NamedTuple):
    """A structured line for the log."""

    level: str
    event: str
    fields: dict[str, str | int | None]


class Dead(NamedTuple):
    """A record that can't be applied: its dead-letter reason, and what is wrong in words."""

    reason: str
    error: str


@dataclass(slots=True)
class Decision:
    """What the records applied so far do. Grows record by record until it is committed as one transaction.

    `changed` and `removed` hold each row once, in order of first change. `counts` has `(kind, detail)` keys:
    ("ignored", reason), ("duplicate", topic), ("overbilled_ms", meter); the engine adds its own.
    """

    changed: dict[Row, None] = field(default_factory=dict)
    removed: dict[Row, None] = field(default_factory=dict)
    outputs: list[Output] = field(default_factory=list)
    charges: list[Charge] = field(default_factory=list)
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    notes: list[Note] = field(default_factory=list)

    def put(self, row: Row) -> None:
        """`row` is new or has changed."""
        self.changed[row] = None

    def remove(self, row: Row) -> None:
        """`row` leaves its table."""
        self.changed.pop(row, None)
        self.removed[row] = None

    def ignore(self, reason: str) -> None:
        """A good record that changes nothing is counted, with its reason."""
        self.counts["ignored", reason] += 1

    def send(self, topic: str, org_id: str, timestamp: int, message: Wire | bytes) -> None:
        """`message` goes out with this commit."""
        self.outputs.append(Output(topic, org_id, timestamp, message))
