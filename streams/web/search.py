"""Orgs and entities in this worker's own rows, for lists and searches over all partitions."""

from heapq import nsmallest
from typing import Protocol

from schemas.base import Json
from streams.readmodel import Lookup
from streams.readmodel.items import found_item, org_item
from streams.web.source import Source
from streams.web.times import time_or_null

MOST_FOUND = 50


class ReadModel(Protocol):
    """A copy of all partitions, read in one lookup. None: it can't be read, or is stale; ask the partition owners."""

    async def parts(self) -> Lookup | None:
        """Return the summary of every partition."""

    async def orgs(self, after: str, limit: int) -> Lookup | None:
        """Return orgs whose id comes after `after`, sorted by id."""

    async def search(self, start: str, limit: int) -> Lookup | None:
        """Return what has the id `start`, or begins with it."""


def heads(source: Source) -> list[Json]:
    """Return which partitions are read, and their `as_of`."""
    return [
        {
            "partition": shard.partition,
            "state": "ready" if shard.ready else "restoring",
            "as_of": time_or_null(shard.as_of),
        }
        for shard in source.shards()
    ]


def orgs(source: Source, after: str, limit: int) -> list[Json]:
    """Return this worker's orgs whose id comes after `after`, sorted by id."""
    stores = [shard.store for shard in source.shards() if shard.ready]
    found = nsmallest(
        limit, ((org_id, at) for at, store in enumerate(stores) for org_id in store.orgs if org_id > after)
    )
    return [org_item(stores[at].orgs[org_id]) for org_id, at in found]


def search(source: Source, text: str) -> list[Json]:
    """Return this worker's orgs whose id begins with `text`, and the entities that have it as their id."""
    found: list[Json] = []
    for shard in source.shards():
        if not shard.ready:
            continue
        for org_id, org in shard.store.orgs.items():
            if org_id.startswith(text):
                found.append(found_item("org", org_id, org_id, "suspended" if org.org.suspended else None))
            if (deployment := org.deployments.get(text)) is not None:
                found.append(found_item("deployment", org_id, text, deployment.status.value))
            if (replica := org.replicas.get(text)) is not None:
                found.append(found_item("replica", org_id, text, replica.status.value))
            if (instance := org.instances.get(text)) is not None:
                found.append(found_item("instance", org_id, text, instance.state.value))
            if ".w" in text and text in org.windows:
                found.append(found_item("window", org_id, text, None))
            if len(found) >= MOST_FOUND:
                return found
    return found
