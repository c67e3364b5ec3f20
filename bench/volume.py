"""How many bytes a worker writes: the keys and values of its changelog records and usage events."""

from bench.bench import Bench
from bench.sizes import PARTITIONS
from streams.engine.changelogs import Changelogs
from streams.engine.table import TABLES
from topics.catalogue import USAGE

Ends = dict[str, list[int]]
"""End offsets by topic."""


async def ends(bench: Bench) -> Ends:
    """Return the end offsets of the topics that a worker writes to for heartbeats and ticks."""
    names = [changelog(bench, table) for table in TABLES]
    return {name: await bench.cluster.ends(name, PARTITIONS) for name in (*names, bench.settings.topic(USAGE.name))}


async def written(bench: Bench, since: Ends) -> dict[str, float]:
    """Return the bytes of keys and values that were written since `since`, by topic.

    Compaction may have removed some of the records already, so the mean of those left counts for all.
    """
    found = {}
    for name, starts in since.items():
        count, size = 0, 0
        offsets = sum(await bench.cluster.ends(name, PARTITIONS)) - sum(starts)
        async for key, value in bench.cluster.read(name, PARTITIONS, starts):
            count += 1
            size += len(key) + len(value or b"")
        found[name] = offsets * size / count if count else 0.0
    return found


def changelog(bench: Bench, table: str) -> str:
    """Return the full name of a table's changelog."""
    return Changelogs(bench.settings.app_id, TABLES).name(table)
