"""The test world: lines of a timeline in, outputs and state out."""

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from schemas.base import Json
from streams.limits import HOUR_MS
from streams.replay.driver import ShardDriver
from streams.rules.context import Switches
from streams.rules.store import OrgRows
from streams.web import shapes
from tests.world.records import Numbers, Record, record
from tests.world.timeline import ORG, acts
from topics.catalogue import OUTBOUND
from topics.partitioner import partition_of

if TYPE_CHECKING:
    from streams.rules.decision import LogLine

COUNTED = ("ignored", "duplicate", "out_of_order", "overbilled_ms")


class Mode(StrEnum):
    """How the records are processed; a scenario has the same outputs in each mode (B11)."""

    STEADY = "steady"  # no restarts
    RESTARTS = "restarts"  # a restart before every step
    CRASHES = "crashes"  # two crashes in every step: before a commit, and in it
    SINGLE = "single"  # one record is applied and committed at a time


class Sent(NamedTuple):
    """An outbound record; `value` is `raw`, parsed."""

    topic: str
    timestamp: int
    key: str
    value: dict[str, Any]
    raw: bytes


class World:
    """An installation in process.

    `sent`, `log_lines` and `counts` are of the last step; `all_sent` of all. State is read as in the
    contract's views, so that tests do not depend on the format of rows.
    """

    def __init__(self, mode: Mode = Mode.STEADY, *, partitions: int = 1) -> None:
        self.mode = mode
        self.numbers = Numbers()
        self.driver = ShardDriver(partitions=partitions, max_run_records=1 if mode is Mode.SINGLE else 1_000)
        self.sent: list[Sent] = []
        self.all_sent: list[Sent] = []
        self.log_lines: list[LogLine] = []
        self.counts: dict[tuple[str, str], int] = {}
        self._seen = {(spec.name, partition): 0 for spec in OUTBOUND for partition in range(partitions)}
        self._logged = 0
        self._counted: dict[tuple[str, str], int] = {}

    # Records and restarts

    def restart(self) -> None:
        """Crash and restore; check that all rows are the same afterwards."""
        before = self.state()
        self.driver.crash()
        assert self.state() == before, "a row was changed but not committed"

    def set(self, switches: Switches | None = None, retention_h: int | None = None) -> None:
        """Restart with other settings."""
        if switches is not None:
            self.driver.switches = switches
        if retention_h is not None:
            self.driver.retention_ms = retention_h * HOUR_MS
        self.driver.crash()

    def do(self, *lines: str) -> list[Sent]:
        """Run lines of a timeline one after the other; returns the outputs of the last."""
        sent: list[Sent] = []
        for line in lines:
            sent = self.take([record(act, self.numbers) for act in acts(line)])
        return sent

    def take(self, records: Sequence[Record]) -> list[Sent]:
        """Apply and commit records that are written together; returns their outputs."""
        if self.mode is Mode.RESTARTS:
            self.restart()
        for each in records:
            key = each.key.encode() or None
            if each.topic == "obol.clock":
                self.driver.tick(each.timestamp, each.value)
            else:
                self.driver.send(each.topic, each.value or None, each.timestamp, key)
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
        self.sent = list(self._new())
        self.all_sent += self.sent
        self.log_lines, self._logged = self.driver.log.log_lines[self._logged :], len(self.driver.log.log_lines)
        now = {key: number for key, number in self.driver.counts().items() if key[0] in COUNTED}
        self.counts = {
            key: number - before for key, number in now.items() if number != (before := self._counted.get(key, 0))
        }
        self._counted = now
        return self.sent

    # State

    @property
    def as_of(self) -> int:
        """The greatest timestamp applied, of all partitions."""
        return max(shard.position.as_of for shard in self.driver.shards.values())

    def orgs(self) -> list[str]:
        """Return the ids of all orgs that have rows, in order."""
        return sorted(org_id for shard in self.driver.shards.values() for org_id in shard.store.orgs)

    def find(self, kind: str, row_id: str = "", org_id: str = ORG) -> Json | None:
        """Return the view of an `org`, `deployment`, `replica`, `instance` or `window`; None if it has no row."""
        rows = self._rows(org_id)
        if rows is None:
            return None
        if kind == "org":
            return shapes.org(self._view(org_id), rows)
        if kind == "window":
            window = rows.windows.get(row_id)
            return None if window is None else shapes.window(self._view(org_id), window)
        return next((one for one in self.all(kind, org_id) if one[f"{kind}_id"] == row_id), None)

    def view(self, kind: str, row_id: str = "", org_id: str = ORG) -> Json:
        """Return the view of an entity that must have a row."""
        found = self.find(kind, row_id, org_id)
        assert found is not None, f"{kind} {org_id}/{row_id} has no row"
        return found

    def all(self, kind: str, org_id: str = ORG) -> list[Json]:
        """Return the views of all of an org's `deployment`s, `replica`s or `instance`s."""
        rows, view = self._rows(org_id), self._view(org_id)
        if rows is None:
            return []
        match kind:
            case "deployment":
                replicas = shapes.replicas_of(rows, *rows.deployments)
                return [shapes.deployment(row, replicas[key]) for key, row in rows.deployments.items()]
            case "replica":
                return [shapes.replica(view, rows, row) for row in rows.replicas.values()]
            case "instance":
                return [shapes.instance(view, rows, row) for row in rows.instances.values()]
            case _:
                raise AssertionError(kind)

    def state(self) -> dict[str, list[Json | None]]:
        """Return all views of all orgs."""
        kinds = ("deployment", "replica", "instance")
        return {
            org_id: [self.find("org", org_id=org_id), *(one for kind in kinds for one in self.all(kind, org_id))]
            for org_id in self.orgs()
        }

    def row(self, table: str, row_id: str, org_id: str = ORG) -> Any:
        """The row itself, for what no view shows."""
        rows = self._rows(org_id)
        assert rows is not None
        return rows.table(table)[row_id]

    def rows_written(self, table: str) -> int:
        """Return how many records were written to a table's changelog."""
        return sum(len(written) for (name, _), written in self.driver.log.changelogs.items() if name == table)

    def _rows(self, org_id: str) -> OrgRows | None:
        return self.driver.store(partition_of(org_id, self.driver.partitions)).orgs.get(org_id)

    def _view(self, org_id: str) -> shapes.Valuation:
        partition = partition_of(org_id, self.driver.partitions)
        as_of = self.driver.position(partition).as_of
        return shapes.Valuation(self.driver.prices, self.driver.switches, partition, as_of)

    def _new(self) -> Iterator[Sent]:
        for (topic, partition), seen in self._seen.items():
            records = self.driver.log.records[topic, partition]
            for each in records[seen:]:
                yield Sent(topic, each.timestamp, (each.key or b"").decode(), each.json, each.value or b"")
            self._seen[topic, partition] = len(records)
