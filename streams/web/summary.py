"""A partition in numbers, and all partitions added up to a fleet."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from schemas.times import parse_rfc3339, rfc3339
from streams.billing.windows import Held
from streams.lifecycle.replica import ReplicaStatus
from streams.metrics.census import CONDITION_OF, MOST_ALARMS, Census, Censuses
from streams.web.shapes import conservation, time_or_null
from streams.web.source import Shard, Source

Json = dict[str, Any]

_FIGURES = ("running_ms", "billed_ms", "pending_ms", "forgiven_ms", "overbilled_ms", "unexplained_ms")
_STATES = ("deployments", "replicas", "instances")


class Summaries:
    """The summaries of this worker's partitions, each as of the time that it tells."""

    def __init__(self, source: Source, censuses: Censuses) -> None:
        self._source = source
        self._censuses = censuses

    async def own(self) -> list[Json]:
        """A summary of each assigned partition, in order of their numbers."""
        return [await self._of(shard) for shard in self._source.shards()]

    async def _of(self, shard: Shard) -> Json:
        head = _head(self._source, shard)
        return head | told(await self._censuses.of(shard)) | _counted(shard) if shard.ready else head


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


def told(census: Census) -> Json:
    """A partition's census as JSON."""
    return {
        "as_of": time_or_null(census.as_of_ms),
        "orgs": census.orgs,
        "suspended_orgs": census.suspended_orgs,
        "deployments": dict(census.deployments),
        "replicas": dict(census.replicas),
        "instances": dict(census.instances),
        "running_replicas": census.replicas[ReplicaStatus.RUNNING.value],
        "usage_per_minute": census.windows["open"],
        "windows": {
            "open": census.open_windows,
            "unfinished": census.windows.total(),
            "held": {reason.value: census.windows[CONDITION_OF[reason]] for reason in Held},
            "paused": census.windows[CONDITION_OF[Held.NO_HEARTBEAT]],
        },
        "conservation": conservation(census.totals),
        "unexplained": [{"org_id": org_id, "unexplained_ms": ms} for org_id, ms in census.alarms.items()],
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
        told["unexplained"] = [alarm for part in parts for alarm in part["unexplained"]][:MOST_ALARMS]
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
