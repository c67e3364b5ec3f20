"""Counting a partition's rows: windows by condition, entities by state, and whether every millisecond is explained.

The count is an audit: it reads the rows, not what the rules keep up beside them. It costs microseconds a row, so a
large partition's is taken in the background, and whoever asks is given the last one.
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

from streams.billing.windows import Held, Totals, Window
from streams.lifecycle.deployment import DeploymentStatus
from streams.lifecycle.instance import InstanceState
from streams.lifecycle.replica import ReplicaStatus
from streams.metrics.source import Shard, Source
from streams.rules.charging import held
from streams.rules.store import OrgRows

FEW_ROWS: Final = 1_000
"""A partition with at most so many is counted whenever it is asked for; counting them takes a few milliseconds."""

COUNTING_SHARE: Final = 0.02
"""Larger partitions are counted anew as often as this share of one core allows, …"""

PAUSE_S: Final = 1.0
"""… and not before this has passed."""

FAULT_PAUSE_S: Final = 60.0
"""A partition that could not be counted is tried again after this long, or when someone asks."""

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
    """The count of one partition, as of `as_of_ms`. Its unfinished windows stand under one condition each.

    `open_windows`: those that have not ended, in whatever condition. `alarms`: unexplained milliseconds by org, of the
    first orgs that have any.
    """

    as_of_ms: int | None
    rows: int = 0
    orgs: int = 0
    suspended_orgs: int = 0
    open_windows: int = 0
    windows: Counter[str] = field(default_factory=lambda: Counter(dict.fromkeys(CONDITIONS, 0)))
    totals: Totals = field(default_factory=Totals)
    alarms: dict[str, int] = field(default_factory=dict)
    deployments: Counter[str] = field(default_factory=lambda: _zeros(DeploymentStatus))
    replicas: Counter[str] = field(default_factory=lambda: _zeros(ReplicaStatus))
    instances: Counter[str] = field(default_factory=lambda: _zeros(InstanceState))

    def add(self, window: Window, source: Source) -> None:
        """Count a window: where it stands, and its time."""
        as_of_ms = self.as_of_ms or 0
        if not window.done:
            self.windows[condition(window, source, as_of_ms)] += 1
            self.open_windows += window.ended_at is None
        unexplained_ms = self.totals.add(window, as_of_ms)
        if unexplained_ms and (window.org_id in self.alarms or len(self.alarms) < MOST_ALARMS):
            self.alarms[window.org_id] = self.alarms.get(window.org_id, 0) + unexplained_ms

    def add_entities(self, book: OrgRows) -> None:
        """Count an org and what it has, but for the windows."""
        self.orgs += 1
        self.suspended_orgs += book.org.suspended
        self.deployments.update(row.status.value for row in book.deployments.values())
        self.replicas.update(row.status.value for row in book.replicas.values())
        self.instances.update(row.state.value for row in book.instances.values())
        self.rows += 1 + len(book.deployments) + len(book.replicas) + len(book.instances) + len(book.windows)


def counting(shard: Shard, source: Source) -> Iterator[Census]:
    """Count all rows of `shard`, giving way after every few; the census is whole once this has ended.

    An org's entities are counted at one instant, and its windows are those that it has then; each of them is judged
    when its turn comes, so their sum is of nearly that instant.
    """
    census = Census(shard.as_of)
    left = FEW_ROWS
    for book in list(shard.store.orgs.values()):
        census.add_entities(book)
        left -= 1
        for window in list(book.windows.values()):
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
    """Where an unfinished window stands: held for a reason, paused, open, or closed with something left to bill."""
    why = held(window, source.prices, source.switches, as_of_ms)
    if why is not None:
        return CONDITION_OF[why]
    return "open" if window.ended_at is None else "closed_unfinished"


@dataclass(slots=True)
class _Known:
    """The last census of a shard, how long it took, and when the next is due by the clock that only rises."""

    census: Census | None = None
    cost_s: float = 0.0
    due_s: float = 0.0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def is_small(self) -> bool:
        """Whether it is so small that it is taken anew each time."""
        return self.census is not None and self.census.rows <= FEW_ROWS

    @property
    def wants_count(self) -> bool:
        """Whether there is none that could be given."""
        return self.census is None or self.is_small


class Censuses:
    """The last census of each of this worker's partitions. A shard that leaves takes its own with it."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._known: WeakKeyDictionary[Shard, _Known] = WeakKeyDictionary()

    async def of(self, shard: Shard) -> Census:
        """Give the census of `shard`, which is ready: a new one if it is small, or was never counted; else the last."""
        known = self._known_of(shard)
        if known.wants_count:
            async with known.lock:
                # Who was first may have counted it for all who waited.
                if known.wants_count:
                    await self._count(shard, known)
        if known.census is None:
            msg = f"partition {shard.partition} could not be counted"
            raise RuntimeError(msg)
        return known.census

    async def keep_counting(self) -> None:
        """Count large partitions anew, until cancelled. One that was just restored is counted within `PAUSE_S`."""
        while True:
            for shard in [shard for shard in self._source.shards() if shard.ready]:
                known = self._known_of(shard)
                if known.is_small or time.monotonic() < known.due_s:
                    continue
                try:
                    async with known.lock:
                        await self._count(shard, known)
                except Exception:
                    # The count is there for people to look at: no fault of it may stop a bill. They see it, too.
                    log.exception("partition %d can't be counted", shard.partition)
                    known.census, known.due_s = None, time.monotonic() + FAULT_PAUSE_S
            await asyncio.sleep(PAUSE_S)

    def _known_of(self, shard: Shard) -> _Known:
        return self._known.setdefault(shard, _Known())

    async def _count(self, shard: Shard, known: _Known) -> None:
        census, cost_s, counts = Census(None), 0.0, counting(shard, self._source)
        while True:
            started_s = time.perf_counter()
            found = next(counts, None)
            cost_s += time.perf_counter() - started_s
            if found is None:
                break
            census = found
            await asyncio.sleep(0)
        known.census, known.cost_s = census, cost_s
        # All partitions together have the share, so each rests for the cost of all.
        known.due_s = time.monotonic() + sum(one.cost_s for one in self._known.values()) / COUNTING_SHARE
