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
from tests.support.http_get import get
from tests.support.workers import DEADLINE_S, POLL_S, Installation, LagWatch, Sent, Worker

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


def wait_until_it_applies(worker: Worker) -> None:
    """Until each partition has a time, which it has from its first record on, committed or not."""
    end_s = time.monotonic() + DEADLINE_S
    while True:
        parts = get(f"{worker.url}/partitions", DEADLINE_S, Accept="application/json").json["items"]
        if len(parts) == PARTITIONS and all(part["as_of"] is not None for part in parts):
            return
        assert time.monotonic() < end_s, parts
        time.sleep(POLL_S)


async def test_a_worker_that_was_frozen_does_no_harm(kafka_bootstrap: str, namespace: str) -> None:
    installation = Installation(kafka_bootstrap, namespace, PARTITIONS)
    await installation.provision()
    start_ms = int(time.time() * 1000) // MINUTE_MS * MINUTE_MS - 3 * HOUR_MS
    records = list(fleet(installation, start_ms))
    await installation.send(records)
    driver = worked_off(records, PARTITIONS)

    # Commits that are rare leave all that is applied not yet committed when it freezes.
    with Worker(installation, OBOL_COMMIT_INTERVAL_MS="10000") as frozen:
        async with LagWatch(installation) as watch:
            total = sum((await watch.lag()).values())
            await asyncio.to_thread(frozen.wait_for, "are at work")
            await asyncio.to_thread(wait_until_it_applies, frozen)
            frozen.process.send_signal(signal.SIGSTOP)
            assert sum((await watch.lag()).values()) == total > 0
            with Worker(installation, "--without-web") as heir:
                await watch.wait_until(0, [heir])
                frozen.process.send_signal(signal.SIGCONT)
                # It has work at hand, tries to commit it, and is locked out.
                assert await asyncio.to_thread(frozen.wait) == EXIT_FENCED
                assert "was taken over by another worker" in frozen.tail()
                assert heir.stop() == 0

    await check_published(installation, driver)
