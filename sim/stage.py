"""All stand-ins together: they generate records and react to Obol's outputs.

Pure: time is an argument. `sim.driver` publishes the records and passes the outputs.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from schemas.changes import LifecycleChange
from schemas.credits import Credit
from schemas.notices import Notice
from schemas.orders import ExecletOrder, HostOrder
from schemas.results import CommandResult
from schemas.usage import Usage
from sim import execlets, hosts
from sim.agenda import Actor, Agenda
from sim.croesus import Croesus
from sim.records import Record
from topics import catalogue

CroesusAction: TypeAlias = tuple[int, Callable[[Croesus, int], Iterable[Record]]]
"""A time in ms, and the records that Croesus publishes then."""

OUTPUT_TOPICS: Final = (
    catalogue.USAGE,
    catalogue.CREDITS,
    catalogue.NOTICES,
    catalogue.CHANGES,
    catalogue.RESULTS,
    catalogue.EXECLET_ORDERS,
    catalogue.HOST_ORDERS,
    catalogue.DEAD_LETTERS,
)
"""The topics that a stage receives."""


@dataclass(frozen=True, slots=True)
class Output:
    """A record of an output topic. `topic`: without the namespace."""

    topic: str
    timestamp_ms: int
    value: bytes
    key: str | None = None


@dataclass(slots=True)
class Memory:
    """The outputs received so far. Usage events have the time of the tick that sent them."""

    usage: list[tuple[int, Usage]] = field(default_factory=list)
    credits: list[Credit] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)
    changes: list[LifecycleChange] = field(default_factory=list)
    results: list[CommandResult] = field(default_factory=list)
    dead: list[bytes] = field(default_factory=list)


class Stage:
    """Users, execlets, hosts and Croesus."""

    def __init__(
        self,
        seed: int,
        actors: Iterable[tuple[str, Actor]],
        croesus_actions: Iterable[CroesusAction],
        execlet_behavior: execlets.BehaviorChoice,
        host_behavior: hosts.BehaviorChoice,
    ) -> None:
        self.croesus = Croesus()
        self.memory = Memory()
        self._agenda = Agenda()
        self._execlets = execlets.Execlets(seed, self._agenda, execlet_behavior)
        self._hosts = hosts.Hosts(seed, self._agenda, host_behavior)
        self._croesus_actions = sorted(croesus_actions, key=lambda action: action[0])
        for name, actor in actors:
            self._agenda.add(name, actor)

    def until(self, end_ms: int) -> Iterator[Record]:
        """Yield the records before `end_ms` that were not yielded yet, in order of time."""
        while self._croesus_actions and self._croesus_actions[0][0] < end_ms:
            at_ms, act = self._croesus_actions.pop(0)
            yield from self._agenda.until(at_ms)
            yield from act(self.croesus, at_ms)
        yield from self._agenda.until(end_ms)

    def receive(self, outputs: Iterable[Output], now_ms: int) -> None:
        """Receive Obol's outputs. Reactions are after `now_ms`, Croesus's new balances 1 ms after it."""
        for record in outputs:
            self._take(record, now_ms)
        statements = list(self.croesus.statements(now_ms + 1))
        if statements:
            self._agenda.add(f"statements/{now_ms}", iter(statements))

    def _take(self, record: Output, now_ms: int) -> None:
        match record.topic:
            case catalogue.USAGE.name:
                self.croesus.receive(record.value)
                self.memory.usage.append((record.timestamp_ms, Usage.model_validate_json(record.value)))
            case catalogue.CREDITS.name:
                self.croesus.receive_credit(record.value)
                self.memory.credits.append(Credit.model_validate_json(record.value))
            case catalogue.NOTICES.name:
                self.memory.notices.append(Notice.model_validate_json(record.value))
            case catalogue.EXECLET_ORDERS.name:
                self._execlets.execute(ExecletOrder.model_validate_json(record.value), now_ms)
            case catalogue.HOST_ORDERS.name:
                self._hosts.execute(HostOrder.model_validate_json(record.value), now_ms)
            case catalogue.CHANGES.name:
                self.memory.changes.append(LifecycleChange.model_validate_json(record.value))
            case catalogue.RESULTS.name:
                self.memory.results.append(CommandResult.model_validate_json(record.value))
            case catalogue.DEAD_LETTERS.name:
                self.memory.dead.append(record.value)
