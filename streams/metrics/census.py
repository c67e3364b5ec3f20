"""The census of a partition: windows by condition, entities by state, and unexplained time.

The census is an audit: it reads the rows, not the indexes derived from them. It takes microseconds per row, so large
partitions are counted in the background, and a caller gets the last census.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final
from weakref import WeakKeyDictionary

from schemas.base import Json
from schemas.times import rfc3339
from streams.billing.windows import Held, Totals, Window
from streams.lifecycle.deployment import DeploymentStatus
from streams.lifecycle.instance import InstanceState
from streams.lifecycle.replica import ReplicaStatus
from streams.metrics.hours import Hours
from streams.metrics.source import ShardView, Source
from streams.rules.charging import held
from streams.rules.store import OrgRows

FEW_ROWS: Final = 1_000
"""A partition with at most this many rows is counted at each request. Also the rows between two yields of a count."""

COUNTING_SHARE: Final = 0.02
"""The share of one CPU core that counting larger partitions may use."""

PAUSE_S: Final = 1.0
"""The minimum interval between two rounds of counting."""

FAULT_PAUSE_S: Final = 60.0
"""After a failed count, the interval until the next attempt."""

MOST_ALARMS: Final = 20

CONDITIONS: Final = ("open", "paused", "unpriced", "billing_off", "dry_run", "closed_unfinished")

CONDITION_OF: Final = {
    Held.UNPRICED: "unpriced",
    Held.BILLING_OFF: "billing_off",
    Held.DRY_RUN: "dry_run",
    Held.NO_HEARTBEAT: "paused",
}

log = logging.getLogger(__name__)


def _zeros(states: type[StrEnum]) -> Counter[str]:
    return Counter({state.value: 0 for state in states})


@dataclass(slots=True)
class Census:
    """The count of one partition, as of `as_of_ms`.

    `windows`: unfinished windows by condition. `open_windows`: windows that have not ended, in any condition. `alarms`:
    unexplained milliseconds by org, of the first `MOST_ALARMS` orgs that have any. `hours`: the last 24 hours; None
    before the first record.
    """

    as_of_ms: int | None
    rows: int = 0
    orgs: int = 0
    suspended_orgs: int = 0
    open_windows: int = 0
    windows: Counter[str] = field(default_factory=lambda: Counter(dict.fromkeys(CONDITIONS, 0)))
    totals: Totals = field(default_factory=Totals)
    alarms: dict[str, int] = field(default_factory=dict)
    zombies: Counter[str] = field(default_factory=lambda: Counter({"replica": 0, "instance": 0}))
    zombie_rows: list[Json] = field(default_factory=list)
    deployments: Counter[str] = field(default_factory=lambda: _zeros(DeploymentStatus))
    replicas: Counter[str] = field(default_factory=lambda: _zeros(ReplicaStatus))
    instances: Counter[str] = field(default_factory=lambda: _zeros(InstanceState))
    hours: Hours | None = None

    def add(self, window: Window, source: Source) -> None:
        """Count a window's condition and time."""
        as_of_ms = self.as_of_ms or 0
        if not window.done:
            self.windows[condition(window, source, as_of_ms)] += 1
            self.open_windows += window.ended_at is None
        if self.hours is not None:
            self.hours.add(window)
        unexplained_ms = self.totals.add(window, as_of_ms)
        if unexplained_ms and (window.org_id in self.alarms or len(self.alarms) < MOST_ALARMS):
            self.alarms[window.org_id] = self.alarms.get(window.org_id, 0) + unexplained_ms

    def add_entities(self, rows: OrgRows) -> None:
        """Count an org and its entities, without the windows."""
        self.orgs += 1
        for owner in rows.zombies.values():
            self.zombies[owner.OWNER] += 1
            if owner.late_signs is not None and len(self.zombie_rows) < MOST_ALARMS:
                self.zombie_rows.append(
                    {
                        "org_id": owner.org_id,
                        "kind": owner.OWNER,
                        "id": owner.row_id,
                        "since": rfc3339(owner.late_signs.first_at),
                        "last": rfc3339(owner.late_signs.last_at),
                    }
                )
        self.suspended_orgs += rows.org.suspended
        self.deployments.update(row.status.value for row in rows.deployments.values())
        self.replicas.update(row.status.value for row in rows.replicas.values())
        self.instances.update(row.state.value for row in rows.instances.values())
        self.rows += 1 + len(rows.deployments) + len(rows.replicas) + len(rows.instances) + len(rows.windows)


def counting(shard: ShardView, source: Source) -> Iterator[Census]:
    """Count all rows of `shard`, yielding every `FEW_ROWS` rows. The last census yielded is complete.

    An org's entities are counted at one instant. Its windows are those it has at that instant, but the condition of
    each is determined when the count reaches it.
    """
    hours = None if shard.as_of is None else Hours(shard.as_of, shard.store.retention_ms)
    census = Census(shard.as_of, hours=hours)
    left = FEW_ROWS
    for rows in list(shard.store.orgs.values()):
        census.add_entities(rows)
        left -= 1
        for window in list(rows.windows.values()):
            census.add(window, source)
            left -= 1
            if left <= 0:
                yield census
                left = FEW_ROWS
        if left <= 0:
            yield census
            left = FEW_ROWS
    yield census


def condition(window: Window, source: Source, as_of_ms: int) -> str:
    """Return the condition of an unfinished window: held, paused, open, or closed with time left to bill."""
    reason = held(window, source.prices, source.switches, as_of_ms)
    if reason is not None:
        return CONDITION_OF[reason]
    return "open" if window.ended_at is None else "closed_unfinished"


@dataclass(slots=True)
class _Entry:
    """The last census of a shard, its duration, and when the next one is due on the monotonic clock."""

    census: Census | None = None
    cost_s: float = 0.0
    due_s: float = 0.0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def is_small(self) -> bool:
        """Whether the partition is small enough to be counted at each request."""
        return self.census is not None and self.census.rows <= FEW_ROWS

    @property
    def must_count(self) -> bool:
        """Whether a request needs a new count."""
        return self.census is None or self.is_small


class Censuses:
    """The last census of each of this worker's partitions. It is dropped together with its shard."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._entries: WeakKeyDictionary[ShardView, _Entry] = WeakKeyDictionary()

    async def of(self, shard: ShardView) -> Census:
        """Return the census of a ready shard: a new one if it is small or was never counted, else the last."""
        entry = self._entry_of(shard)
        if entry.must_count:
            async with entry.lock:
                # Another request may have counted it while this one waited for the lock.
                if entry.must_count:
                    await self._count(shard, entry)
        if entry.census is None:
            msg = f"partition {shard.partition} could not be counted"
            raise RuntimeError(msg)
        return entry.census

    async def keep_counting(self) -> None:
        """Count large partitions repeatedly until cancelled. A restored partition is counted within `PAUSE_S`."""
        while True:
            for shard in [shard for shard in self._source.shards() if shard.ready]:
                entry = self._entry_of(shard)
                if entry.is_small or time.monotonic() < entry.due_s:
                    continue
                try:
                    async with entry.lock:
                        await self._count(shard, entry)
                except Exception:
                    # A failed count must not stop billing. Views and metrics fail until one succeeds.
                    log.exception("partition %d can't be counted", shard.partition)
                    entry.census, entry.due_s = None, time.monotonic() + FAULT_PAUSE_S
            await asyncio.sleep(PAUSE_S)

    def _entry_of(self, shard: ShardView) -> _Entry:
        return self._entries.setdefault(shard, _Entry())

    async def _count(self, shard: ShardView, entry: _Entry) -> None:
        census, cost_s, counts = Census(None), 0.0, counting(shard, self._source)
        while True:
            started_s = time.perf_counter()
            found = next(counts, None)
            cost_s += time.perf_counter() - started_s
            if found is None:
                break
            census = found
            await asyncio.sleep(0)
        entry.census, entry.cost_s = census, cost_s
        # The share is for all partitions together, so the interval depends on the cost of all.
        entry.due_s = time.monotonic() + sum(other.cost_s for other in self._entries.values()) / COUNTING_SHARE
