"""A worker that was frozen, and wakes when others have its partitions, writes nothing twice and undoes nothing."""

from __future__ import annotations

import asyncio
import signal
import time
from typing import TYPE_CHECKING

import pytest

from sim.fleet import timeline
from streams.engine.fatal import EXIT_FENCED
from tests.faults.in_process import check_published, worked_off
from tests.support.workers import Installation, LagWatch, Sent, Worker

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.kafka, pytest.mark.faults]

PARTITIONS = 2
MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS


def fleet(installation: Installation, start_ms: int) -> Iterator[Sent]:
    return installation.placed(
        timeline(11, 12, 400, start_ms, 1.0, instances=12, partitions=PARTITIONS, duplicates=0.05)
    )


async def test_a_worker_that_was_frozen_does_no_harm(kafka_bootstrap: str, namespace: str) -> None:
    installation = Installation(kafka_bootstrap, namespace, PARTITIONS)
    await installation.provision()
    start_ms = int(time.time() * 1000) // MINUTE_MS * MINUTE_MS - 3 * HOUR_MS
    records = list(fleet(installation, start_ms))
    await installation.send(records)
    driver = worked_off(records, PARTITIONS)

    # Commits that are rare leave much that is applied and not yet committed when it freezes.
    with Worker(installation, "--without-web", OBOL_COMMIT_INTERVAL_MS="300") as frozen:
        async with LagWatch(installation) as watch:
            assert await watch.wait_until(len(records) * 9 // 10, [frozen]) > 0
            frozen.process.send_signal(signal.SIGSTOP)
            with Worker(installation, "--without-web") as heir:
                await watch.wait_until(0, [heir])
                frozen.process.send_signal(signal.SIGCONT)
                # It has work at hand, tries to commit it, and is locked out.
                assert await asyncio.to_thread(frozen.wait) == EXIT_FENCED
                assert "was taken over by another worker" in frozen.tail()
                assert heir.stop() == 0

    await check_published(installation, driver)
