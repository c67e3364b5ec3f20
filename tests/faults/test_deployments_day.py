"""A mixed day of 500 deployments on a real broker, undisturbed and with kills: the same bytes, one order per job."""

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
from tests.faults.fault_run import (
    MANY_KILLS,
    Event,
    FaultRun,
    Published,
    bodies,
    check_same,
    published,
    reference_output,
    run_undisturbed,
    two_installations,
    write_to_both,
)
from tests.faults.observer import Observation, check_observations, deployments_of, observing
from tests.support.workers import Installation, Worker
from topics.catalogue import CHANGES, CLOCK, DEAD_LETTERS, RESULTS, USAGE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sim.records import Record

pytestmark = [pytest.mark.kafka, pytest.mark.faults, pytest.mark.web]

SEED = 20261130
ORGS, DEPLOYMENTS, REPLICAS, HOURS, PARTITIONS = 100, 500, 750, 24.0, 4
HEARTBEAT_S = 60
"""Within the 90 s of B3, but half as many records as with the usual 30 s: this test is about changes."""
DUPLICATES, INVALID_SHARE = 0.05, 0.001
WATCHED_HOURS = 0.5
MINUTE_MS, HOUR_MS = 60_000, 3_600_000
EVENTS: list[Event] = [
    "kill one",
    "kill its replacement",
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
        heartbeat_s=HEARTBEAT_S,
        duplicates=DUPLICATES,
    )


async def test_a_day_of_deployments(kafka_bootstrap: str, namespace: str, log_progress: Callable[[str], None]) -> None:
    start_ms = int(time.time() * 1000) // MINUTE_MS * MINUTE_MS - 30 * HOUR_MS
    reference, disturbed = two_installations(kafka_bootstrap, namespace, PARTITIONS)
    log = await write_to_both(reference, disturbed, day(start_ms, HOURS), (SEED, INVALID_SHARE), log_progress)

    workers: list[Worker] = []
    async with observing(lambda: [worker.url for worker in workers], org_names(ORGS), SEED) as reference_observations:
        await run_undisturbed(reference, started=workers.append)
    expected = await reference_output(reference, log_progress)

    run = FaultRun(disturbed, SEED, EVENTS, log_progress)
    async with observing(
        lambda: [worker.url for worker in run.workers], org_names(ORGS), SEED
    ) as disturbed_observations:
        await run.execute()
    assert run.kills >= MANY_KILLS

    await check_same(expected, disturbed, log)
    log_progress(
        "both published the same; observations of the views: "
        f"{len(reference_observations)} and {len(disturbed_observations)}"
    )
    for observations in (reference_observations, disturbed_observations):
        check_observations(observations, expected)
        assert len({observation.as_of // MINUTE_MS for observation in observations}) >= 10
    check_mixed(expected)


def check_mixed(outcome: Published) -> None:
    """Check that the day had every kind of record: otherwise the comparison would prove little."""
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
    kafka_bootstrap: str, namespace: str, log_progress: Callable[[str], None]
) -> None:
    """`current_replicas` is the number of running ones (R5): every deployment, after each of half an hour's ticks.

    Each minute is written when the one before is applied, so topics may overtake one another, as in production.
    """
    start_ms = int(time.time() * 1000) // MINUTE_MS * MINUTE_MS - 2 * HOUR_MS
    installation = Installation(kafka_bootstrap, namespace, PARTITIONS, {"OBOL_COMMIT_INTERVAL_MS": "20"})
    await installation.provision()
    observations: list[Observation] = []
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
                now = [observation for observation in seen if observation is not None]
                assert [observation.as_of for observation in now] == ORGS * [sent[0].timestamp]
                running.append(sum(one["current_replicas"] for observation in now for one in observation.deployments))
                observations += now
                if len(running) % 10 == 0:
                    log_progress(f"after {len(running)} ticks {running[-1]} replicas run")
        assert await asyncio.to_thread(worker.stop) == 0
    check_observations(observations, await published(installation), settled=True)
    assert len(running) == WATCHED_HOURS * 60 + 1
    assert max(running) > REPLICAS // 2
