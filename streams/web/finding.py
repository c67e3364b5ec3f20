"""What is found without knowing its org: in the read model in one look-up, else in every worker's own tables."""

from heapq import nsmallest
from typing import Any, Protocol

from streams.readmodel import Looked, found_item, org_item
from streams.web.shapes import time_or_null
from streams.web.source import Source

Json = dict[str, Any]

MOST_FOUND = 50


class ReadModel(Protocol):
    """A copy of all partitions that answers in one look-up. None: it can't, or not well enough; ask the owners."""

    async def parts(self) -> Looked | None:
        """The summary of every partition."""

    async def orgs(self, after: str, limit: int) -> Looked | None:
        """Orgs whose id comes after `after`, in order of their ids."""

    async def search(self, start: str, limit: int) -> Looked | None:
        """What has the id `start`, or begins with it."""


def heads(source: Source) -> list[Json]:
    """Which partitions were looked at, and as of when."""
    return [
        {
            "partition": shard.partition,
            "state": "ready" if shard.ready else "restoring",
            "as_of": time_or_null(shard.as_of),
        }
        for shard in source.shards()
    ]


def orgs(source: Source, after: str, limit: int) -> list[Json]:
    """This worker's orgs whose id comes after `after`, in order of their ids."""
    books = [shard.store for shard in source.shards() if shard.ready]
    found = nsmallest(limit, ((org_id, at) for at, book in enumerate(books) for org_id in book.orgs if org_id > after))
    return [org_item(books[at].orgs[org_id]) for org_id, at in found]


def search(source: Source, asked: str) -> list[Json]:
    """This worker's orgs that begin with `asked`, and whatever has exactly that id."""
    found: list[Json] = []
    for shard in source.shards():
        if not shard.ready:
            continue
        for org_id, rows in shard.store.orgs.items():
            if org_id.startswith(asked):
                found.append(found_item("org", org_id, org_id, "suspended" if rows.org.suspended else None))
            if (deployment := rows.deployments.get(asked)) is not None:
                found.append(found_item("deployment", org_id, asked, deployment.status.value))
            if (replica := rows.replicas.get(asked)) is not None:
                found.append(found_item("replica", org_id, asked, replica.status.value))
            if (instance := rows.instances.get(asked)) is not None:
                found.append(found_item("instance", org_id, asked, instance.state.value))
            if ".w" in asked and asked in rows.windows:
                found.append(found_item("window", org_id, asked, None))
            if len(found) >= MOST_FOUND:
                return found
    return found
