"""All stand-ins together, in answer to a running Obol: what they send next, and what they make of what they hear.

Pure: time is an argument. Whoever drives a stage publishes what it hands out and brings it Obol's outputs.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from schemas.changes import LifecycleChange
from schemas.orders import ExecletOrder, HostOrder
from schemas.results import CommandResult
from schemas.usage import Usage
from sim import hosts, lives
from sim.agenda import Agenda, Life
from sim.croesus import Croesus
from sim.records import Record
from topics import catalogue

Cue: TypeAlias = tuple[int, Callable[[Croesus, int], Iterable[Record]]]
"""A time in ms and what Croesus does then."""

HEARD: Final = (
    catalogue.USAGE,
    catalogue.CHANGES,
    catalogue.RESULTS,
    catalogue.EXECLET_ORDERS,
    catalogue.HOST_ORDERS,
    catalogue.DEAD_LETTERS,
)
"""The topics that a stage wants to hear."""


@dataclass(frozen=True, slots=True)
class Heard:
    """A record as it was heard: its topic without namespace, its time in ms, its value, its key."""

    topic: str
    timestamp_ms: int
    value: bytes
    key: str | None = None


@dataclass(slots=True)
class Memory:
    """What was heard, for the stories: usage with the time of the tick that sent it, changes, results, dead letters."""

    usage: list[tuple[int, Usage]] = field(default_factory=list)
    changes: list[LifecycleChange] = field(default_factory=list)
    results: list[CommandResult] = field(default_factory=list)
    dead: list[bytes] = field(default_factory=list)


class Stage:
    """Users, execlets, hosts and Croesus."""

    def __init__(
        self,
        seed: int,
        lives_of: Iterable[tuple[str, Life]],
        cues: Iterable[Cue],
        execlets: lives.Casting,
        machines: hosts.Casting,
    ) -> None:
        self.croesus = Croesus()
        self.memory = Memory()
        self._agenda = Agenda()
        self._execlets = lives.Execlets(seed, self._agenda, execlets)
        self._hosts = hosts.Hosts(seed, self._agenda, machines)
        self._cues = sorted(cues, key=lambda cue: cue[0])
        for name, life in lives_of:
            self._agenda.add(name, life)

    def until(self, end_ms: int) -> Iterator[Record]:
        """Hand out what happens before `end_ms` and was not handed out yet, in order of time."""
        while self._cues and self._cues[0][0] < end_ms:
            at_ms, act = self._cues.pop(0)
            yield from self._agenda.until(at_ms)
            yield from act(self.croesus, at_ms)
        yield from self._agenda.until(end_ms)

    def hear(self, heard: Iterable[Heard], now_ms: int) -> None:
        """Take what Obol sent; answers follow after `now_ms`, Croesus's new balances 1 ms after it."""
        for record in heard:
            self._take(record, now_ms)
        statements = list(self.croesus.statements(now_ms + 1))
        if statements:
            self._agenda.add(f"statements/{now_ms}", iter(statements))

    def _take(self, record: Heard, now_ms: int) -> None:
        match record.topic:
            case catalogue.USAGE.name:
                self.croesus.receive(record.value)
                self.memory.usage.append((record.timestamp_ms, Usage.model_validate_json(record.value)))
            case catalogue.EXECLET_ORDERS.name:
                self._execlets.obey(ExecletOrder.model_validate_json(record.value), now_ms)
            case catalogue.HOST_ORDERS.name:
                self._hosts.obey(HostOrder.model_validate_json(record.value), now_ms)
            case catalogue.CHANGES.name:
                self.memory.changes.append(LifecycleChange.model_validate_json(record.value))
            case catalogue.RESULTS.name:
                self.memory.results.append(CommandResult.model_validate_json(record.value))
            case catalogue.DEAD_LETTERS.name:
                self.memory.dead.append(record.value)
