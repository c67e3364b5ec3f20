"""Requests web views continuously, and compares them with what was published."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from aiohttp import ClientError, ClientSession, ClientTimeout

from schemas.times import parse_rfc3339
from tests.faults.fault_run import bodies
from topics.catalogue import CHANGES

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from tests.faults.fault_run import Published

PACE_S = 0.02
"""The time between two requests, so that they take little of the workers' time."""

OK, NOT_FOUND, UNAVAILABLE = 200, 404, 503

States = dict[tuple[str, str], str]
"""The state of each entity, by kind and id."""


class Observation(NamedTuple):
    """An org's deployments in a web view."""

    org_id: str
    as_of: int
    deployments: list[dict[str, Any]]

    @property
    def states(self) -> States:
        """The status of each deployment and replica."""
        shown = {("deployment", one["deployment_id"]): one["status"] for one in self.deployments}
        replicas = (replica for one in self.deployments for replica in one["replicas"])
        return shown | {("replica", replica["replica_id"]): replica["status"] for replica in replicas}


async def deployments_of(session: ClientSession, url: str, org_id: str) -> Observation | None:
    """Return an org's deployments; None if the view is unavailable or the org unknown. Raises for other responses."""
    async with session.get(f"{url}/orgs/{org_id}/deployments?limit=1000") as response:
        body = await response.json(content_type=None)
        if response.status in {NOT_FOUND, UNAVAILABLE}:
            return None
        assert response.status == OK, f"{response.url}: {response.status} {body}"
        assert body["next"] is None
        return Observation(org_id, parse_rfc3339(body["as_of"]), body["items"])


@asynccontextmanager
async def observing(urls: Callable[[], list[str]], orgs: list[str], seed: int) -> AsyncIterator[list[Observation]]:
    """Request random orgs from random workers while the context is open."""
    observations: list[Observation] = []
    task = asyncio.create_task(_watch(urls, random.Random(seed), orgs, observations))
    try:
        yield observations
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _watch(
    urls: Callable[[], list[str]], rng: random.Random, orgs: list[str], observations: list[Observation]
) -> None:
    headers = {"Accept": "application/json"}
    async with ClientSession(headers=headers, timeout=ClientTimeout(total=10)) as session:
        while True:
            # Workers that are killed, or have not started, do not respond.
            with suppress(ClientError, TimeoutError):
                if known := urls():
                    observation = await deployments_of(session, rng.choice(known), rng.choice(orgs))
                    if observation is not None:
                        observations.append(observation)
            await asyncio.sleep(PACE_S)


def check_observations(observations: list[Observation], outcome: Published, *, settled: bool = False) -> None:
    """Check that each observation has the states after the changes up to its `as_of`, and R5.

    Of the changes at that time, some may not have been applied, unless `settled`.
    """
    changes_of = defaultdict(list)
    for change in bodies(outcome, CHANGES.name):
        if change["kind"] != "instance":
            changes_of[change["org_id"]].append(
                (parse_rfc3339(change["at"]), (change["kind"], change["id"]), change["to"])
            )
    for observation in observations:
        changes = changes_of[observation.org_id]
        states: States = {entity: to for at, entity, to in changes if at < observation.as_of}
        candidates = [states]
        for at, entity, to in changes:
            if at == observation.as_of:
                candidates.append(candidates[-1] | {entity: to})
        if settled:
            del candidates[:-1]
        shown = observation.states
        assert shown in candidates, (
            f"{observation.org_id} at {observation.as_of}: {sorted(shown.items())} is not {candidates}"
        )
        for one in observation.deployments:
            running = sum(
                status == "running"
                for (kind, entity), status in shown.items()
                if kind == "replica" and entity.rpartition("-r")[0] == one["deployment_id"]
            )
            assert one["current_replicas"] == running, f"{observation.org_id} at {observation.as_of}: {one}"
