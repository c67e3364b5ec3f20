"""A worker that was frozen, and wakes when others have its partitions, writes nothing twice and undoes nothing."""

from __future__ import annotations

import asyncio
import itertools
import signal
import time
from typing import TYPE_CHECKING

import pytest

from schemas.times import parse_rfc3339
from sim.fleet import timeline
from streams.engine.fatal import EXIT_RETRY
from tests.faults.in_process import check_published, worked_off
from tests.support.http_get import get
from tests.support.workers import DEADLINE_S, POLL_S, Installation, Sent, Worker
from topics.catalogue import CLOCK

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.kafka, pytest.mark.faults]

PARTITIONS = 2
MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
PART_MS = 10 * MINUTE_MS


def fleet(installation: Installation, start_ms: int) -> Iterator[Sent]:
    return installation.placed(
        timeline(11, 12, 150, start_ms, 1.0, instances=12, partitions=PARTITIONS, duplicates=0.05)
    )


def wait_until_applied(worker: Worker, at_ms: int) -> None:
    """Until each partition is as of `at_ms`, committed or not."""
    end_s = time.monotonic() + DEADLINE_S
    while True:
        found = get(f"{worker.url}/partitions", DEADLINE_S, Accept="application/json").json["items"]
        times = [parse_rfc3339(part["as_of"]) for part in found if part["as_of"] is not None]
        if len(times) == PARTITIONS and min(times) >= at_ms:
            return
        assert time.monotonic() < end_s, f"{found}\n{worker.tail()}"
        time.sleep(POLL_S)


async def test_a_worker_that_was_frozen_does_no_harm(kafka_bootstrap: str, namespace: str) -> None:
    installation = Installation(kafka_bootstrap, namespace, PARTITIONS)
    await installation.provision()
    start_ms = int(time.time() * 1000) // MINUTE_MS * MINUTE_MS - 3 * HOUR_MS
    records = list(fleet(installation, start_ms))
    driver = worked_off(records, PARTITIONS)
    # The prices come before the start.
    parts = itertools.groupby(records, lambda record: max(0, record.timestamp - start_ms) // PART_MS)

    # Commits are rare, so it mostly is before one; where a commit came just then, there is more to do.
    with Worker(installation, OBOL_COMMIT_INTERVAL_MS="10000") as frozen:
        await asyncio.to_thread(frozen.wait_for, "are active")
        for _, part in parts:
            sent = list(part)
            await installation.send(sent)
            last_tick_ms = max(record.timestamp for record in sent if record.topic == CLOCK.name)
            await asyncio.to_thread(wait_until_applied, frozen, last_tick_ms)
            frozen.process.send_signal(signal.SIGSTOP)
            if sum((await installation.lag()).values()):
                break
            frozen.process.send_signal(signal.SIGCONT)
        else:
            pytest.fail("each time that it was frozen, all that it had applied was committed")
        for _, part in parts:
            await installation.send(part)

        with Worker(installation, "--without-web") as heir:
            await installation.wait_until_caught_up([heir])
            frozen.process.send_signal(signal.SIGCONT)
            # It has work at hand, tries to commit it, and is locked out.
            assert await asyncio.to_thread(frozen.wait) == EXIT_RETRY, frozen.tail(200)
            assert "was taken over by another worker" in frozen.tail(200)
            assert heir.stop() == 0

    await check_published(installation, driver)
