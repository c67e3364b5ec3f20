"""Someone who reloads the web views all the time, and what they saw held against what was published."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from aiohttp import ClientError, ClientSession, ClientTimeout

from schemas.times import parse_rfc3339
from tests.faults.upheaval import bodies
from topics.catalogue import CHANGES

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from tests.faults.upheaval import Published

PACE_S = 0.02
"""Between two looks, so that looking takes little of what the workers need."""

OK, NOT_FOUND, UNAVAILABLE = 200, 404, 503

States = dict[tuple[str, str], str]
"""By kind and id."""


class Look(NamedTuple):
    """An org's deployments as a worker showed them."""

    org_id: str
    as_of: int
    deployments: list[dict[str, Any]]

    @property
    def states(self) -> States:
        """What is shown of each deployment and replica."""
        shown = {("deployment", one["deployment_id"]): one["status"] for one in self.deployments}
        replicas = (replica for one in self.deployments for replica in one["replicas"])
        return shown | {("replica", replica["replica_id"]): replica["status"] for replica in replicas}


async def deployments_of(session: ClientSession, url: str, org_id: str) -> Look | None:
    """An org's deployments; None: not now, or no such org yet. Any other answer than the contract's is a failure."""
    async with session.get(f"{url}/orgs/{org_id}/deployments?limit=1000") as answer:
        body = await answer.json(content_type=None)
        if answer.status in {NOT_FOUND, UNAVAILABLE}:
            return None
        assert answer.status == OK, f"{answer.url}: {answer.status} {body}"
        assert body["next"] is None
        return Look(org_id, parse_rfc3339(body["as_of"]), body["items"])


@asynccontextmanager
async def watching(urls: Callable[[], list[str]], orgs: list[str], seed: int) -> AsyncIterator[list[Look]]:
    """Look at one org after another, at one worker or another, as long as the context is open."""
    looks: list[Look] = []
    task = asyncio.create_task(_watch(urls, random.Random(seed), orgs, looks))
    try:
        yield looks
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _watch(urls: Callable[[], list[str]], rng: random.Random, orgs: list[str], looks: list[Look]) -> None:
    headers = {"Accept": "application/json"}
    async with ClientSession(headers=headers, timeout=ClientTimeout(total=10)) as session:
        while True:
            # Workers that are killed, or not yet there, give no answer.
            with suppress(ClientError, TimeoutError):
                if known := urls():
                    look = await deployments_of(session, rng.choice(known), rng.choice(orgs))
                    if look is not None:
                        looks.append(look)
            await asyncio.sleep(PACE_S)


def check_looks(looks: list[Look], outcome: Published, *, settled: bool = False) -> None:
    """Each look shows what the changes up to its `as_of` say, and counts what runs (R5).

    Of the changes at that very time, the first so many may have been applied; all of them where things had `settled`.
    """
    told = defaultdict(list)
    for change in bodies(outcome, CHANGES.name):
        if change["kind"] != "instance":
            told[change["org_id"]].append((parse_rfc3339(change["at"]), (change["kind"], change["id"]), change["to"]))
    for look in looks:
        changes = told[look.org_id]
        states: States = {entity: to for at, entity, to in changes if at < look.as_of}
        candidates = [states]
        for at, entity, to in changes:
            if at == look.as_of:
                candidates.append(candidates[-1] | {entity: to})
        if settled:
            del candidates[:-1]
        shown = look.states
        assert shown in candidates, f"{look.org_id} at {look.as_of}: {sorted(shown.items())} is not {candidates}"
        for one in look.deployments:
            running = sum(
                status == "running"
                for (kind, entity), status in shown.items()
                if kind == "replica" and entity.rpartition("-r")[0] == one["deployment_id"]
            )
            assert one["current_replicas"] == running, f"{look.org_id} at {look.as_of}: {one}"
