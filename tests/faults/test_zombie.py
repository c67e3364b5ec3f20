"""A suspended process that resumes after its partitions were taken over writes nothing."""

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
from tests.faults.in_process import check_published, reference_driver
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
    """Wait until each partition's `as_of` is at least `at_ms`, committed or not."""
    end_s = time.monotonic() + DEADLINE_S
    while True:
        found = get(f"{worker.url}/partitions", DEADLINE_S, Accept="application/json").json["items"]
        times = [parse_rfc3339(part["as_of"]) for part in found if part["as_of"] is not None]
        if len(times) == PARTITIONS and min(times) >= at_ms:
            return
        assert time.monotonic() < end_s, f"{found}\n{worker.tail()}"
        time.sleep(POLL_S)


async def test_a_suspended_worker_is_fenced(kafka_bootstrap: str, namespace: str) -> None:
    installation = Installation(kafka_bootstrap, namespace, PARTITIONS)
    await installation.provision()
    start_ms = int(time.time() * 1000) // MINUTE_MS * MINUTE_MS - 3 * HOUR_MS
    records = list(fleet(installation, start_ms))
    driver = reference_driver(records, PARTITIONS)
    # Prices have timestamps before the start.
    parts = itertools.groupby(records, lambda record: max(0, record.timestamp - start_ms) // PART_MS)

    # Commits are rare, so the process is usually suspended before one. If a commit came first, try the next part.
    with Worker(installation, OBOL_COMMIT_INTERVAL_MS="10000") as suspended:
        await asyncio.to_thread(suspended.wait_for, "are active")
        for _, part in parts:
            sent = list(part)
            await installation.send(sent)
            last_tick_ms = max(record.timestamp for record in sent if record.topic == CLOCK.name)
            await asyncio.to_thread(wait_until_applied, suspended, last_tick_ms)
            suspended.process.send_signal(signal.SIGSTOP)
            if sum((await installation.lag()).values()):
                break
            suspended.process.send_signal(signal.SIGCONT)
        else:
            pytest.fail("everything applied was committed each time the process was suspended")
        for _, part in parts:
            await installation.send(part)

        with Worker(installation, "--without-web") as replacement:
            await installation.wait_until_caught_up([replacement])
            suspended.process.send_signal(signal.SIGCONT)
            # It tries to commit what it has applied, and is fenced.
            assert await asyncio.to_thread(suspended.wait) == EXIT_RETRY, suspended.tail(200)
            assert "was taken over by another worker" in suspended.tail(200)
            assert replacement.stop() == 0

    await check_published(installation, driver)
