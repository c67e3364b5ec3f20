"""The engine in process, as a scenario sees it: a step's records in, everything that came of them out."""

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

from streams.billing.prices import Prices
from streams.engine.shard import Commit
from streams.limits import HOUR_MS
from streams.replay.driver import Log, ShardDriver
from streams.rules.context import Switches
from streams.rules.decision import Decision
from streams.rules.store import RowStore
from tests.scenarios.records import Numbers, Record, record
from tests.scenarios.timeline import acts
from topics.catalogue import TOPICS

OUTBOUND = [spec.name for spec in TOPICS.values() if spec.direction == "out"]
COUNTS = ("ignored", "duplicate", "out_of_order", "overbilled_ms")


class Mode(StrEnum):
    """How the worker fares meanwhile; a scenario comes out the same in each (B11)."""

    STEADY = "steady"
    RESTARTS = "restarts"  # it is restarted before every step
    CRASHES = "crashes"  # every step is half done twice, once before and once in the commit, before it is done
    SINGLE = "single"  # one record is read, applied and committed at a time


class Sent(NamedTuple):
    """An outbound record, its value parsed, and as it was written."""

    topic: str
    timestamp: int
    key: str
    value: dict[str, Any]
    raw: bytes


class NotedLog(Log):
    """A log that keeps what commits had to say to people, too."""

    def __init__(self) -> None:
        super().__init__()
        self.notes = list(Decision().notes)

    def commit(self, commit: Commit) -> None:
        self.notes += commit.notes
        super().commit(commit)


class World:
    """One partition: what came in, what went out, what is kept."""

    def __init__(self, mode: Mode = Mode.STEADY) -> None:
        self.mode = mode
        self.numbers = Numbers()
        self.driver = ShardDriver(max_run_records=1 if mode is Mode.SINGLE else 1_000)
        self.log = self.driver.log = NotedLog()
        self.sent: list[Sent] = []
        self.notes = list(self.log.notes)
        self.counts: dict[tuple[str, str], int] = {}
        self._told = dict.fromkeys(OUTBOUND, 0)
        self._noted = 0
        self._counted: dict[tuple[str, str], int] = {}

    @property
    def store(self) -> RowStore:
        """The partition's rows."""
        return self.driver.store()

    @property
    def prices(self) -> Prices:
        """All prices that were heard."""
        return self.driver.prices

    @property
    def switches(self) -> Switches:
        """The dedicated-billing switches."""
        return self.driver.switches

    @property
    def as_of(self) -> int:
        """The greatest time read in order."""
        return self.driver.position().as_of

    def set(self, switches: Switches | None = None, retention_h: int | None = None) -> None:
        """Restart the worker, with other settings."""
        if switches is not None:
            self.driver.switches = switches
        if retention_h is not None:
            self.driver.retention_ms = retention_h * HOUR_MS
        self.driver.crash()

    def do(self, *lines: str) -> list[Sent]:
        """Take lines of a timeline one after the other; returns what the last one sent."""
        sent: list[Sent] = []
        for line in lines:
            sent = self.take([record(act, self.numbers) for act in acts(line)])
        return sent

    def take(self, records: Sequence[Record]) -> list[Sent]:
        """Apply and commit records that are there at the same time; returns what that sent."""
        if self.mode is Mode.RESTARTS:
            self.driver.crash()
        for each in records:
            key = each.key.encode() or None
            partition = 0 if each.topic in {"croesus.prices", "obol.clock"} else None
            self.driver.send(each.topic, each.value or None, each.timestamp, key, partition)
        if self.mode is Mode.CRASHES:
            self.driver.feed()
            self.driver.step()
            self.driver.crash()
            self.driver.feed()
            while self.driver.step():
                pass
            self.driver.crash_in_commit()
        if self.mode is Mode.SINGLE:
            self.driver.feed()
            while self.driver.step():
                self.driver.commit()
        self.driver.run()
        sent = list(self._new())
        self.sent += sent
        self.notes, self._noted = self.log.notes[self._noted :], len(self.log.notes)
        now = {
            (kind, detail): number
            for kind in COUNTS
            for detail, number in self.driver.position().counts.get(kind, {}).items()
        }
        self.counts = {key: number - self._counted.get(key, 0) for key, number in now.items()}
        self._counted = now
        return sent

    def _new(self) -> Iterator[Sent]:
        for topic in OUTBOUND:
            records = self.driver.records(topic)
            for each in records[self._told[topic] :]:
                yield Sent(topic, each.timestamp, (each.key or b"").decode(), each.json, each.value or b"")
            self._told[topic] = len(records)
