"""What applying a record yields besides changed rows: outputs, usage events, counts and log lines."""

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from schemas.base import Wire
from streams.billing.usage import Charge


class Output(NamedTuple):
    """A message for an outbound topic (without namespace); key `org_id`, timestamp the time of the cause."""

    topic: str
    org_id: str
    timestamp: int
    message: Wire | bytes


class LogLine(NamedTuple):
    """A structured log line."""

    level: str
    event: str
    fields: dict[str, str | int | None]


class Dead(NamedTuple):
    """Why a record becomes a dead letter: its reason code, and the error as a sentence."""

    reason: str
    error: str


@dataclass(slots=True)
class Decision:
    """What applying the records since the last commit has yielded. All of it is committed in one transaction.

    `counts` has `(kind, detail)` keys: ("ignored", reason), ("duplicate", topic), ("overbilled_ms", meter); the engine
    adds its own.
    """

    outputs: list[Output] = field(default_factory=list)
    charges: list[Charge] = field(default_factory=list)
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    log_lines: list[LogLine] = field(default_factory=list)

    def ignore(self, reason: str) -> None:
        """Count a valid record that changes nothing, with its reason."""
        self.counts["ignored", reason] += 1

    def send(self, topic: str, org_id: str, timestamp: int, message: Wire | bytes) -> None:
        """Add an outbound message."""
        self.outputs.append(Output(topic, org_id, timestamp, message))
