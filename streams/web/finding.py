"""What is found without knowing its org: in the read model in one look-up, else in every worker's own tables."""

from heapq import nsmallest
from typing import Any, NamedTuple, Protocol

from streams.rules.book import OrgBook
from streams.web.shapes import time_or_null
from streams.web.source import Source

Json = dict[str, Any]

MOST_FOUND = 50


class Looked(NamedTuple):
    """What the read model holds: the items, up to when they are right, and how long ago they were written."""

    items: list[Json]
    as_of: str | None
    age_ms: int


class ReadModel(Protocol):
    """A copy of all partitions that answers in one look-up. None: it can't, or not well enough; ask the owners."""

    async def parts(self, partitions: int) -> Looked | None:
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
    ready = [shard for shard in source.shards() if shard.ready]
    ids = nsmallest(limit, (org_id for shard in ready for org_id in shard.book.orgs if org_id > after))
    books = {org_id: shard.book.orgs[org_id] for shard in ready for org_id in ids if org_id in shard.book.orgs}
    return [org(books[org_id]) for org_id in ids]


def org(rows: OrgBook) -> Json:
    """An org in a list."""
    return {
        "org_id": rows.org.org_id,
        "balance": rows.org.balance,
        "suspended": rows.org.suspended,
        "running_replicas": sum(row.current_replicas for row in rows.deployments.values()),
        "instances": len(rows.held),
    }


def search(source: Source, asked: str) -> list[Json]:
    """This worker's orgs that begin with `asked`, and whatever has exactly that id."""
    found: list[Json] = []
    for shard in source.shards():
        if not shard.ready:
            continue
        for org_id, rows in shard.book.orgs.items():
            if org_id.startswith(asked):
                found.append(item("org", org_id, org_id, "suspended" if rows.org.suspended else None))
            if (deployment := rows.deployments.get(asked)) is not None:
                found.append(item("deployment", org_id, asked, deployment.status.value))
            if (replica := rows.replicas.get(asked)) is not None:
                found.append(item("replica", org_id, asked, replica.status.value))
            if (instance := rows.instances.get(asked)) is not None:
                found.append(item("instance", org_id, asked, instance.state.value))
            if ".w" in asked and rows.window(asked) is not None:
                found.append(item("window", org_id, asked, None))
            if len(found) >= MOST_FOUND:
                return found
    return found


def item(kind: str, org_id: str, entity_id: str, state: str | None) -> Json:
    """Something found, and where its page is."""
    path = f"/orgs/{org_id}" if kind == "org" else f"/orgs/{org_id}/{kind}s/{entity_id}"
    return {"kind": kind, "org_id": org_id, "id": entity_id, "state": state, "path": path}
