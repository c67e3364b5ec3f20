"""A partition in numbers, and all partitions added up to a fleet."""

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

from schemas.times import parse_rfc3339, rfc3339
from streams.billing.windows import NO_FIGURES, Held
from streams.lifecycle.deployment import DeploymentStatus
from streams.lifecycle.instance import InstanceState
from streams.lifecycle.replica import ReplicaStatus
from streams.rules.book import OrgBook
from streams.rules.charging import held
from streams.web.shapes import View, conservation, time_or_null, totals
from streams.web.source import Shard, Source

Json = dict[str, Any]

CHEAP_S = 0.005
"""A partition that is counted in less is counted at each look …"""

COUNTING_SHARE = 0.05
"""… a larger one when the last count's own time is at most this share of what has passed since, whoever watches."""

_ROWS_AT_A_STRETCH = 5_000
_MOST_ALARMS = 20
_FIGURES = ("running_ms", "billed_ms", "pending_ms", "forgiven_ms", "overbilled_ms", "unexplained_ms")
_STATES = {"deployments": DeploymentStatus, "replicas": ReplicaStatus, "instances": InstanceState}


class Summaries:
    """The summaries of this worker's partitions, each as of the time that it tells."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._counted: dict[int, tuple[Shard, float, Json]] = {}
        self._counting = asyncio.Lock()

    async def own(self) -> list[Json]:
        """A summary of each assigned partition, in order of their numbers."""
        async with self._counting:
            return [await self._of(shard) for shard in self._source.shards()]

    async def _of(self, shard: Shard) -> Json:
        head = _head(self._source, shard)
        if not shard.ready:
            return head
        known = self._counted.get(shard.partition)
        if known is None or known[0] is not shard or time.monotonic() >= known[1]:
            started_s = time.thread_time()
            counted = await count(self._source, shard)
            spent_s = time.thread_time() - started_s
            rest_s = spent_s / COUNTING_SHARE if spent_s > CHEAP_S else 0.0
            known = (shard, time.monotonic() + rest_s, counted)
            self._counted[shard.partition] = known
        return head | known[2]


def _head(source: Source, shard: Shard) -> Json:
    """Where a partition stands: what is known of it while its rows are restored, too."""
    return {
        "partition": shard.partition,
        "owner": source.own_url,
        "state": "ready" if shard.ready else "restoring",
        "as_of": time_or_null(shard.as_of),
        "lag_records": shard.lag_records,
        "lag_ms": shard.lag_ms,
        "restored_rows": shard.restored_rows,
        "restore_total": shard.restore_total,
    }


async def count(source: Source, shard: Shard) -> Json:
    """Count a partition's rows. Other work goes on in between, but an org is counted in one go, as of one time."""
    as_of = shard.as_of
    tally = _Tally()
    stretch = 0
    for rows in list(shard.book.orgs.values()):
        view = View(source.prices, source.switches, shard.partition, shard.as_of or 0)
        stretch += tally.add(view, rows)
        if stretch >= _ROWS_AT_A_STRETCH:
            stretch = 0
            await asyncio.sleep(0)
    return {"as_of": time_or_null(as_of), **tally.told(), **_counted(shard)}


class _Tally:
    """What was counted so far."""

    def __init__(self) -> None:
        self.orgs = 0
        self.suspended = 0
        self.states: dict[str, Counter[Any]] = {name: Counter() for name in _STATES}
        self.held: Counter[Held] = Counter()
        self.sums = NO_FIGURES
        self.unexplained = 0
        self.open = self.unfinished = self.billing = 0
        self.alarms: list[Json] = []

    def add(self, view: View, rows: OrgBook) -> int:
        """Count one org; returns how many rows that were."""
        self.orgs += 1
        self.suspended += rows.org.suspended
        self.states["deployments"].update(row.status for row in rows.deployments.values())
        self.states["replicas"].update(row.status for row in rows.replicas.values())
        self.states["instances"].update(row.state for row in rows.instances.values())
        for window in (*rows.due_dedicated, *rows.due_metered):
            reason = held(window, view.prices, view.switches, view.as_of)
            self.unfinished += 1
            self.open += window.ended_at is None
            self.billing += window.ended_at is None and reason is None
            if reason is not None:
                self.held[reason] += 1
        self._conserve(view, rows)
        return len(rows.deployments) + len(rows.replicas) + len(rows.instances) + len(rows.closed)

    def _conserve(self, view: View, rows: OrgBook) -> None:
        sums, unexplained = totals(rows, view.as_of)
        self.sums = self.sums.plus(sums)
        self.unexplained += unexplained
        if unexplained and len(self.alarms) < _MOST_ALARMS:
            self.alarms.append({"org_id": rows.org.org_id, "unexplained_ms": unexplained})

    def told(self) -> Json:
        """The tally as JSON."""
        return {
            "orgs": self.orgs,
            "suspended_orgs": self.suspended,
            **{name: {state.value: self.states[name][state] for state in enum} for name, enum in _STATES.items()},
            "running_replicas": self.states["replicas"][ReplicaStatus.RUNNING],
            "usage_per_minute": self.billing,
            "windows": {
                "open": self.open,
                "unfinished": self.unfinished,
                "held": {reason.value: self.held[reason] for reason in Held},
                "paused": self.held[Held.NO_HEARTBEAT],
            },
            "conservation": conservation(self.sums, self.unexplained),
            "unexplained": self.alarms,
        }


def _counted(shard: Shard) -> Json:
    """The engine's own counts: dead letters and ignored records by reason."""
    dead = {detail: count for (kind, detail), count in shard.counters.items() if kind == "dead"}
    ignored = {detail: count for (kind, detail), count in shard.counters.items() if kind == "ignored"}
    return {"dead_letters": dead, "ignored": ignored}


def missing(partition: int, owner: str | None) -> Json:
    """A partition that nobody answers for at the moment."""
    return {"partition": partition, "owner": owner, "state": "unknown", "as_of": None}


def fleet(parts: Sequence[Json], currency: str) -> Json:
    """All partitions added up; `complete` only when each has its rows. `as_of` is the smallest (contract)."""
    complete = all(part["state"] == "ready" for part in parts)
    told: Json = {
        "as_of": smallest(parts),
        "complete": complete,
        "currency": currency,
        "lag_records": _sum_known(part.get("lag_records") for part in parts),
        "partitions": [
            {key: value for key, value in part.items() if key in _PARTITION_FIELDS or key == "conservation"}
            for part in parts
        ],
    }
    if complete:
        for name in ("orgs", "suspended_orgs", "running_replicas", "usage_per_minute"):
            told[name] = sum(part[name] for part in parts)
        for name in (*_STATES, "dead_letters", "ignored"):
            told[name] = add_up(part[name] for part in parts)
        told["windows"] = {
            name: sum(part["windows"][name] for part in parts) for name in ("open", "unfinished", "paused")
        }
        told["windows"]["held"] = add_up(part["windows"]["held"] for part in parts)
        told["conservation"] = {name: sum(part["conservation"][name] for part in parts) for name in _FIGURES}
        told["unexplained"] = [alarm for part in parts for alarm in part["unexplained"]][:_MOST_ALARMS]
    return told


_PARTITION_FIELDS = (
    "partition",
    "owner",
    "state",
    "as_of",
    "lag_records",
    "lag_ms",
    "restored_rows",
    "restore_total",
    "running_replicas",
    "usage_per_minute",
)


def smallest(parts: Sequence[Json]) -> str | None:
    """The smallest `as_of` of several partitions that have read something; null when none has."""
    times = [parse_rfc3339(part["as_of"]) for part in parts if part["as_of"] is not None]
    return rfc3339(min(times)) if times else None


def add_up(parts: Any) -> dict[str, int]:
    """Counts by name, added up."""
    total: Counter[str] = Counter()
    for part in parts:
        for name, number in part.items():
            total[name] += number
    return dict(total)


def _sum_known(numbers: Any) -> int | None:
    known = list(numbers)
    return None if None in known else sum(known)
