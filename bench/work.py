"""What a program did, read from the topics that it wrote: the rows that it keeps and the minutes that it billed."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from bench.cluster import Cluster
from bench.sizes import PARTITIONS


class _Billed(msgspec.Struct):
    replica_id: str
    interval_end: str


@dataclass(frozen=True, slots=True)
class Work:
    """`rows` and `events`: the number of rows and usage events. `billed`: of replicas that were billed up to a time."""

    rows: int
    events: int
    billed: Mapping[str, int] = field(default_factory=dict)


async def work(cluster: Cluster, changelog: str, usage: str, starts: Sequence[int] | None = None) -> Work:
    """Read what a program did; `starts`: only the usage events from these offsets on."""
    live: dict[bytes, bool] = {}
    async for key, value in cluster.read(changelog, PARTITIONS):
        live[key] = value is not None
    decoder = msgspec.json.Decoder(_Billed)
    replicas: dict[str, set[str]] = defaultdict(set)
    events = 0
    async for _, value in cluster.read(usage, PARTITIONS, starts):
        events += 1
        billed = decoder.decode(value or b"")
        replicas[billed.interval_end].add(billed.replica_id)
    return Work(sum(live.values()), events, {end: len(found) for end, found in replicas.items()})


def difference(one: Work, other: Work) -> str | None:
    """Return how two programs' work differs, or None."""
    if one.rows != other.rows:
        return f"{one.rows:,} rows and {other.rows:,} rows"
    if one.events != other.events:
        return f"{one.events:,} usage events and {other.events:,} usage events"
    if one.billed != other.billed:
        ends = sorted(
            end for end in one.billed.keys() | other.billed.keys() if one.billed.get(end) != other.billed.get(end)
        )
        first = ends[0]
        counts = (f"{found.billed.get(first, 0):,} replicas" for found in (one, other))
        return f"{' and '.join(counts)} billed up to {first}"
    return None
