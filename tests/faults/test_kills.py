"""B11 with real processes: kills, a clean stop and rebalances in mid-work change nothing of what comes out."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING

import pytest

from sim.fleet import timeline
from tests.support.workers import Installation, LagWatch, Sent, Worker
from topics.catalogue import OUTBOUND

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.kafka, pytest.mark.faults]

SEED = 20261129
ORGS, REPLICAS, INSTANCES, HOURS, PARTITIONS = 40, 2_000, 40, 2.0, 4
KILLS = 10
SHARES = 50
"""A kill comes when this part of the work has been done since the one before."""
MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS

Message = tuple[int, bytes | None, int, bytes | None]


def fleet(installation: Installation, start_ms: int) -> Iterator[Sent]:
    """Two hours of a fleet, with records that come twice and records that come late."""
    return installation.placed(
        timeline(
            SEED,
            ORGS,
            REPLICAS,
            start_ms,
            HOURS,
            instances=INSTANCES,
            partitions=PARTITIONS,
            duplicates=0.05,
            late=0.02,
        )
    )


async def messages(installation: Installation, topic: str) -> list[Message]:
    return sorted(
        (record.partition, record.key, record.timestamp, record.value) for record in await installation.read(topic)
    )


async def test_kills_and_rebalances_change_nothing_of_what_comes_out(kafka_bootstrap: str, namespace: str) -> None:
    start_ms = int(time.time() * 1000) // MINUTE_MS * MINUTE_MS - 4 * HOUR_MS
    calm = Installation(kafka_bootstrap, f"{namespace}.calm", PARTITIONS)
    rough = Installation(kafka_bootstrap, f"{namespace}.rough", PARTITIONS)
    for installation in (calm, rough):
        await installation.provision()
        await installation.send(fleet(installation, start_ms))

    with Worker(calm, "--without-web") as worker:
        await calm.wait_until_caught_up([worker])
        assert worker.stop() == 0

    rng = random.Random(SEED)
    workers = [Worker(rough, "--without-web"), Worker(rough, "--without-web")]
    victim = 0
    async with LagWatch(rough) as watch:
        left = total = sum((await watch.lag()).values())
        try:
            for kill in range(KILLS):
                left = await watch.wait_until(left - total // SHARES, workers)
                assert left > 0, f"all was done after {kill} kills"
                victim = rng.randrange(2)
                workers[victim].kill()
                workers[victim] = Worker(rough, "--without-web")
            # The one at work stops as one does; then another comes: two rebalances more.
            left = await watch.wait_until(left - total // SHARES, workers)
            assert left > 0, "the clean stop came when all was done"
            assert workers[1 - victim].stop() == 0
            workers[1 - victim] = Worker(rough, "--without-web")
            await watch.wait_until(0, workers)
            assert [worker.stop() for worker in workers] == [0, 0]
        finally:
            for worker in workers:
                worker.kill()

    for spec in OUTBOUND:
        expected = await messages(calm, spec.name)
        assert await messages(rough, spec.name) == expected, spec.name
        if spec.name == "croesus.usage":
            assert len(expected) > 100_000
            assert len({(key, value) for _, key, _, value in expected}) == len(expected)
