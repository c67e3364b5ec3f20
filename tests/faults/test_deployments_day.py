"""A mixed day of 500 deployments on a real broker, in peace and with kills: the same bytes, each job ordered once."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from itertools import groupby
from typing import TYPE_CHECKING

import pytest
from aiohttp import ClientSession, ClientTimeout

from sim.fleet import timeline
from sim.users import org_names
from tests.faults.onlooker import Look, check_looks, deployments_of, watching
from tests.faults.upheaval import (
    MANY_KILLS,
    Event,
    Published,
    Upheaval,
    bodies,
    calm_and_rough,
    check_same,
    published,
    published_in_peace,
    undisturbed,
    written_twice,
)
from tests.support.workers import Installation, Worker
from topics.catalogue import CHANGES, CLOCK, DEAD_LETTERS, RESULTS, USAGE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sim.records import Record

pytestmark = [pytest.mark.kafka, pytest.mark.faults, pytest.mark.web]

SEED = 20261130
ORGS, DEPLOYMENTS, REPLICAS, HOURS, PARTITIONS = 100, 500, 750, 24.0, 4
BEAT_S = 60
"""Within the 90 s that B3 allows, and half the records of the usual 30 s: the day is about what changes."""
DUPLICATES, REFUSE = 0.05, 0.001
WATCHED_HOURS = 0.5
MINUTE_MS, HOUR_MS = 60_000, 3_600_000
EVENTS: list[Event] = [
    "kill one",
    "kill its heir",
    "kill all",
    "kill one",
    "kill one",
    "kill all",
    "kill one",
]


def day(start_ms: int, hours: float) -> Iterator[Record]:
    return timeline(
        SEED,
        ORGS,
        REPLICAS,
        start_ms,
        hours,
        deployments=DEPLOYMENTS,
        partitions=PARTITIONS,
        heartbeat_s=BEAT_S,
        duplicates=DUPLICATES,
    )


async def test_a_day_of_deployments(kafka_bootstrap: str, namespace: str, tell: Callable[[str], None]) -> None:
    start_ms = int(time.time() * 1000) // MINUTE_MS * MINUTE_MS - 30 * HOUR_MS
    calm, rough = calm_and_rough(kafka_bootstrap, namespace, PARTITIONS)
    log = await written_twice(calm, rough, day(start_ms, HOURS), (SEED, REFUSE), tell)

    workers: list[Worker] = []
    async with watching(lambda: [worker.url for worker in workers], org_names(ORGS), SEED) as calm_looks:
        await undisturbed(calm, started=workers.append)
    expected = await published_in_peace(calm, tell)

    upheaval = Upheaval(rough, SEED, EVENTS, tell)
    async with watching(lambda: [worker.url for worker in upheaval.workers], org_names(ORGS), SEED) as rough_looks:
        await upheaval.run()
    assert upheaval.kills >= MANY_KILLS

    await check_same(expected, rough, log)
    tell(f"both published the same; now {len(calm_looks)} and {len(rough_looks)} looks at the views")
    for looks in (calm_looks, rough_looks):
        check_looks(looks, expected)
        assert len({look.as_of // MINUTE_MS for look in looks}) >= 10
    check_mixed(expected)


def check_mixed(outcome: Published) -> None:
    """The day was a mixed one, or its likeness would say little."""
    reasons = Counter(change["reason"] for change in bodies(outcome, CHANGES.name))
    assert set(reasons) >= {
        *("deployed", "progress", "user", "idle", "request", "scaler", "org_suspended", "replicas_failed"),
        *("image_pull_failed", "container_init_failed", "container_crashed"),
    }
    dead = {letter["reason"] for letter in bodies(outcome, DEAD_LETTERS.name)}
    assert dead == {"undecodable", "invalid", "too_large", "unknown_replica", "unknown_deployment"}
    codes = {result.get("code") for result in bodies(outcome, RESULTS.name)}
    assert codes >= {None, "INVALID", "ILLEGAL_TRANSITION"}
    assert {event["type"] for event in bodies(outcome, USAGE.name)} == {"dedicated_inference_running"}


async def test_running_replicas_at_every_tick(
    kafka_bootstrap: str, namespace: str, tell: Callable[[str], None]
) -> None:
    """`current_replicas` is the number of running ones (R5): every deployment, after each of half an hour's ticks.

    Each minute is written when the one before is done, so topics may overtake one another, as in life.
    """
    start_ms = int(time.time() * 1000) // MINUTE_MS * MINUTE_MS - 2 * HOUR_MS
    installation = Installation(kafka_bootstrap, namespace, PARTITIONS, {"OBOL_COMMIT_INTERVAL_MS": "20"})
    await installation.provision()
    looks: list[Look] = []
    running: list[int] = []
    with Worker(installation) as worker:
        async with ClientSession(headers={"Accept": "application/json"}, timeout=ClientTimeout(total=30)) as session:
            minutes = groupby(installation.placed(day(start_ms, WATCHED_HOURS)), lambda sent: sent.topic == CLOCK.name)
            for is_tick, records in minutes:
                sent = list(records)
                await installation.send(sent)
                if not is_tick:
                    continue
                await installation.wait_until_caught_up([worker])
                seen = await asyncio.gather(*(deployments_of(session, worker.url, org) for org in org_names(ORGS)))
                now = [look for look in seen if look is not None]
                assert [look.as_of for look in now] == ORGS * [sent[0].timestamp]
                running.append(sum(one["current_replicas"] for look in now for one in look.deployments))
                looks += now
                if len(running) % 10 == 0:
                    tell(f"after {len(running)} ticks {running[-1]} replicas run")
        assert await asyncio.to_thread(worker.stop) == 0
    check_looks(looks, await published(installation), settled=True)
    assert len(running) == WATCHED_HOURS * 60 + 1
    assert max(running) > REPLICAS // 2
