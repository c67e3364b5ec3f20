"""What a record does besides changing rows: outputs, usage events, counts and log lines. The engine carries it out."""

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from schemas.base import Wire
from streams.billing.windows import Window


class Output(NamedTuple):
    """A message for an outbound topic (without namespace); key `org_id`, timestamp the time of the cause."""

    topic: str
    org_id: str
    timestamp: int
    message: Wire | bytes


class Charge(NamedTuple):
    """One piece of a window to be billed: a usage event not yet encoded, since a tick makes 100,000 of them."""

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
    """A record that can't be applied: its dead-letter reason, and what is wrong, as a sentence."""

    reason: str
    error: str


@dataclass(slots=True)
class Decision:
    """What the records applied since the last commit do. All of it is committed as one transaction.

    `counts` has `(kind, detail)` keys: ("ignored", reason), ("duplicate", topic), ("overbilled_ms", meter); the engine
    adds its own.
    """

    outputs: list[Output] = field(default_factory=list)
    charges: list[Charge] = field(default_factory=list)
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    notes: list[Note] = field(default_factory=list)

    def ignore(self, reason: str) -> None:
        """Count a good record that changes nothing, with its reason."""
        self.counts["ignored", reason] += 1

    def send(self, topic: str, org_id: str, timestamp: int, message: Wire | bytes) -> None:
        """Add an outbound message."""
        self.outputs.append(Output(topic, org_id, timestamp, message))
