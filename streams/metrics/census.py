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

from streams.billing.windows import Figures, Held, Window, figures
from streams.lifecycle.deployment import DeploymentStatus
from streams.lifecycle.instance import InstanceState
from streams.lifecycle.replica import ReplicaStatus
from streams.metrics.source import Shard, Source
from streams.rules.book import OrgBook
from streams.rules.charging import held

FEW_ROWS: Final = 1_000
"""A partition with at most so many is counted whenever it is asked for; counting them takes a few milliseconds."""

COUNTING_SHARE: Final = 0.02
"""Larger partitions are counted anew as often as this share of one core allows, …"""

PAUSE_S: Final = 1.0
"""… and not before this has passed."""

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

    `open_windows`: those that have not ended, in whatever condition. `sums`: the fields of `Figures`, in their order.
    `alarms`: unexplained milliseconds by org, of the first orgs that have any.
    """

    as_of_ms: int | None
    rows: int = 0
    orgs: int = 0
    suspended_orgs: int = 0
    open_windows: int = 0
    windows: Counter[str] = field(default_factory=lambda: Counter(dict.fromkeys(CONDITIONS, 0)))
    sums: list[int] = field(default_factory=lambda: [0] * len(Figures._fields))
    unexplained_ms: int = 0
    unexplained_windows: int = 0
    alarms: dict[str, int] = field(default_factory=dict)
    deployments: Counter[str] = field(default_factory=lambda: _zeros(DeploymentStatus))
    replicas: Counter[str] = field(default_factory=lambda: _zeros(ReplicaStatus))
    instances: Counter[str] = field(default_factory=lambda: _zeros(InstanceState))

    def add(self, window: Window, source: Source) -> None:
        """Count a window; unexplained time of two windows never cancels out."""
        as_of_ms = self.as_of_ms or 0
        if not window.done:
            self.windows[condition(window, source, as_of_ms)] += 1
            self.open_windows += window.ended_at is None
        # Written out: there may be a million windows, and little else here is done once for each.
        running, billed, pending, forgiven, overbilled = figures(window, as_of_ms)
        sums = self.sums
        sums[0] += running
        sums[1] += billed
        sums[2] += pending
        sums[3] += forgiven
        sums[4] += overbilled
        unexplained_ms = abs(running - billed - pending - forgiven + overbilled)
        if unexplained_ms:
            self.unexplained_ms += unexplained_ms
            self.unexplained_windows += 1
            if window.org_id in self.alarms or len(self.alarms) < MOST_ALARMS:
                self.alarms[window.org_id] = self.alarms.get(window.org_id, 0) + unexplained_ms


def counting(shard: Shard, source: Source) -> Iterator[Census]:
    """Count all rows of `shard`, giving way after every few; the census is whole once this has ended.

    Rows may change in between: each window is judged at one instant, the sum of them is of nearly one.
    """
    census = Census(shard.as_of)
    for book in list(shard.book.orgs.values()):
        census.orgs += 1
        census.suspended_orgs += book.org.suspended
        for _ in _counting_org(book, source, census):
            census.rows += 1
            if census.rows % FEW_ROWS == 0:
                yield census
    yield census


def _counting_org(book: OrgBook, source: Source, census: Census) -> Iterator[None]:
    for deployment in list(book.deployments.values()):
        census.deployments[deployment.status.value] += 1
        yield
    for replica in list(book.replicas.values()):
        census.replicas[replica.status.value] += 1
        if replica.window is not None:
            census.add(replica.window, source)
        yield
    for instance in list(book.instances.values()):
        census.instances[instance.state.value] += 1
        if instance.window is not None:
            census.add(instance.window, source)
        yield
    for window in list(book.closed.values()):
        census.add(window, source)
        yield


def condition(window: Window, source: Source, as_of_ms: int) -> str:
    """Where an unfinished window stands: held for a reason, paused, open, or closed with something left to bill."""
    why = held(window, source.prices, source.switches, as_of_ms)
    if why is not None:
        return CONDITION_OF[why]
    return "open" if window.ended_at is None else "closed_unfinished"


class Censuses:
    """The last census of each of this worker's partitions."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._last: dict[int, tuple[Shard, Census]] = {}
        self._spent_s = 0.0

    async def of(self, shard: Shard) -> Census:
        """Give the census of `shard`, which is ready: a new one if it is small, or was never counted; else the last."""
        return await self._count(shard) if self._wants_count(shard) else self._last[shard.partition][1]

    async def keep_counting(self) -> None:
        """Count large partitions anew, until cancelled. What was just restored is counted before anybody asks."""
        while True:
            shards = {shard.partition: shard for shard in self._source.shards() if shard.ready}
            self._last = {partition: last for partition, last in self._last.items() if partition in shards}
            self._spent_s = 0.0
            for partition, shard in shards.items():
                if self._wants_count(shard) or self._last[partition][1].rows > FEW_ROWS:
                    try:
                        await self._count(shard)
                    except Exception:
                        # The count is there for people to look at: no fault of it may stop a bill. They see it, too.
                        log.exception("partition %d can't be counted", partition)
                        self._last.pop(partition, None)
            await asyncio.sleep(max(PAUSE_S, self._spent_s / COUNTING_SHARE))

    def _wants_count(self, shard: Shard) -> bool:
        """Whether its last census would not do: it is small enough to be counted each time, or has none."""
        of_shard, census = self._last.get(shard.partition, (None, None))
        return census is None or of_shard is not shard or census.rows <= FEW_ROWS

    async def _count(self, shard: Shard) -> Census:
        census, counts = Census(None), counting(shard, self._source)
        while True:
            started_s = time.perf_counter()
            found = next(counts, None)
            self._spent_s += time.perf_counter() - started_s
            if found is None:
                break
            census = found
            await asyncio.sleep(0)
        self._last[shard.partition] = (shard, census)
        return census
