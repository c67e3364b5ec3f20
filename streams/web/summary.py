"""The figures of a partition, and of all partitions added up."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from schemas.base import Json
from schemas.times import parse_rfc3339
from streams.billing.windows import Held
from streams.lifecycle.replica import ReplicaStatus
from streams.metrics.census import CONDITION_OF, MOST_ALARMS, Census, Censuses
from streams.web.shapes import conservation
from streams.web.source import ShardWithPosition, Source
from streams.web.times import time_or_null, time_text

_FIGURES = ("running_ms", "billed_ms", "pending_ms", "forgiven_ms", "overbilled_ms", "unexplained_ms")
_STATES = ("deployments", "replicas", "instances")


class Summaries:
    """The summaries of this worker's partitions, each as of its own time."""

    def __init__(self, source: Source, censuses: Censuses) -> None:
        self._source = source
        self._censuses = censuses

    async def own(self) -> list[Json]:
        """Return a summary of each assigned partition, sorted by number."""
        return [await self._of(shard) for shard in self._source.shards()]

    async def _of(self, shard: ShardWithPosition) -> Json:
        head = _head(self._source, shard)
        return head | census_json(await self._censuses.of(shard)) | _counted(shard) if shard.ready else head


def _head(source: Source, shard: ShardWithPosition) -> Json:
    """Return the fields of a partition that are available while its rows are restored."""
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


def census_json(census: Census) -> Json:
    """Return a partition's census as JSON."""
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
        "zombies": sum(census.zombies.values()),
        "still_heard": census.zombie_rows,
        "hours": [
            {"hour": time_text(hour.start_ms), "events": hour.events, "dedicated_replicas": hour.running}
            for hour in (() if census.hours is None else census.hours.items())
        ],
        "unexplained": [{"org_id": org_id, "unexplained_ms": ms} for org_id, ms in census.alarms.items()],
    }


def _counted(shard: ShardWithPosition) -> Json:
    """Return the engine's counts: dead letters and ignored records by reason."""
    dead = {detail: count for (kind, detail), count in shard.counters.items() if kind == "dead"}
    ignored = {detail: count for (kind, detail), count in shard.counters.items() if kind == "ignored"}
    return {"dead_letters": dead, "ignored": ignored}


def unknown(partition: int, owner: str | None) -> Json:
    """Return the summary of a partition whose owner does not respond."""
    return {"partition": partition, "owner": owner, "state": "unknown", "as_of": None}


def fleet(parts: Sequence[Json], currency: str) -> Json:
    """Add all partitions up; `complete` only when each has its rows. `as_of` is the smallest (contract)."""
    complete = all(part["state"] == "ready" for part in parts)
    found: Json = {
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
        for name in ("orgs", "suspended_orgs", "running_replicas", "usage_per_minute", "zombies"):
            found[name] = sum(part[name] for part in parts)
        for name in (*_STATES, "dead_letters", "ignored"):
            found[name] = add_up(part[name] for part in parts)
        found["windows"] = {
            name: sum(part["windows"][name] for part in parts) for name in ("open", "unfinished", "paused")
        }
        found["windows"]["held"] = add_up(part["windows"]["held"] for part in parts)
        found["conservation"] = {name: sum(part["conservation"][name] for part in parts) for name in _FIGURES}
        found["hours"] = last_hours(parts)
        found["still_heard"] = [one for part in parts for one in part["still_heard"]][:MOST_ALARMS]
        found["unexplained"] = [alarm for part in parts for alarm in part["unexplained"]][:MOST_ALARMS]
    return found


def last_hours(parts: Sequence[Json]) -> list[Json]:
    """Add up the last hours of all partitions, oldest first: the hours that all of them have.

    A partition without records counts as zero. A worker of an earlier version sends no hours, and then there are none.
    """
    started = [{hour["hour"]: hour for hour in part.get("hours", ())} for part in parts if part["as_of"] is not None]
    common = set.intersection(*(set(hours) for hours in started)) if started else set()
    return [
        {"hour": hour, **add_up({name: by_hour[hour][name] for name in _HOUR_FIGURES} for by_hour in started)}
        for hour in sorted(common)
    ]


_HOUR_FIGURES = ("events", "dedicated_replicas")
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
    """Return the smallest `as_of` of the partitions that have read something; null when none has."""
    times = [parse_rfc3339(part["as_of"]) for part in parts if part["as_of"] is not None]
    return time_text(min(times)) if times else None


def add_up(parts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Add up counts by name."""
    total: Counter[str] = Counter()
    for part in parts:
        for name, number in part.items():
            total[name] += number
    return dict(total)


def _sum_known(numbers: Iterable[int | None]) -> int | None:
    total = 0
    for number in numbers:
        if number is None:
            return None
        total += number
    return total
