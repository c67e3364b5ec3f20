"""Brokers are killed, one after the other, while workers run: the output is the same as without."""

from __future__ import annotations

import asyncio
import signal
import time
from typing import TYPE_CHECKING

import pytest

from sim.fleet import timeline
from streams.engine.fatal import EXIT_RETRY
from streams.limits import HOUR_MS, MINUTE_MS
from tests.faults.in_process import check_published, reference_driver
from tests.support.accidents import configure, results, stop_command, wait_for_results
from tests.support.brokers import BROKERS, Broker, cluster
from tests.support.workers import POLL_S, Installation, LagWatch, Sent, Worker
from topics.catalogue import RESULTS

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.kafka, pytest.mark.faults]

PARTITIONS = 4
HOURS = 3.0
DEADLINE_S = 120.0


def fleet(installation: Installation, start_ms: int) -> Iterator[Sent]:
    return installation.placed(
        timeline(23, 12, 400, start_ms, HOURS, instances=12, partitions=PARTITIONS, duplicates=0.05)
    )


def in_parts(records: list[Sent]) -> list[list[Sent]]:
    """Split records into as many parts as brokers, of about equal size, each starting with a new minute."""
    parts: list[list[Sent]] = [[]]
    minute = -1
    for record in records:
        if record.timestamp // MINUTE_MS > minute and len(parts[-1]) * BROKERS >= len(records):
            parts.append([])
        minute = max(minute, record.timestamp // MINUTE_MS)
        parts[-1].append(record)
    return parts


class Supervised:
    """Two workers. One that ends is started again, as a supervisor would."""

    def __init__(self, installation: Installation) -> None:
        self._installation = installation
        self.workers = [Worker(installation, "--without-web") for _ in range(2)]

    def signal(self, number: int) -> None:
        for worker in self.workers:
            if worker.process.poll() is None:
                worker.process.send_signal(number)

    async def until_left(self, behind: int, watch: LagWatch) -> int:
        """Wait until the lag is at most `behind`; returns the lag."""
        end_s = time.monotonic() + DEADLINE_S
        while (left := sum((await watch.lag()).values())) > behind:
            assert time.monotonic() < end_s, f"{left} left\n" + "".join(map(Worker.tail, self.workers))
            self._start_again()
            await asyncio.sleep(POLL_S)
        return left

    def _start_again(self) -> None:
        for at, worker in enumerate(self.workers):
            if (code := worker.process.poll()) is not None:
                assert code == EXIT_RETRY, worker.tail()
                self.workers[at] = Worker(self._installation, "--without-web")

    async def stop(self) -> None:
        """Stop both workers, once they are active."""
        self._start_again()
        for worker in self.workers:
            await asyncio.to_thread(worker.wait_for, "are active")
            assert await asyncio.to_thread(worker.stop) == 0


async def test_each_broker_is_lost_once_and_the_bill_is_the_same(namespace: str) -> None:
    with cluster() as brokers:
        bootstrap = ",".join(broker.address(broker.port) for broker in brokers)
        own = {"OBOL_REPLICATION": str(BROKERS), "CROESUS_HOST": brokers[0].address(brokers[0].port)}
        installation = Installation(bootstrap, namespace, PARTITIONS, own)
        await installation.provision()
        start_ms = int(time.time() * 1000) // MINUTE_MS * MINUTE_MS - 4 * HOUR_MS
        records = list(fleet(installation, start_ms))
        driver = reference_driver(records, PARTITIONS)

        supervised = Supervised(installation)
        try:
            for worker in supervised.workers:
                await asyncio.to_thread(worker.wait_for, "are active")
            for broker, part in zip(brokers, in_parts(records), strict=True):
                await kill_during(broker, part, installation, supervised)
            await supervised.stop()
        finally:
            for worker in supervised.workers:
                worker.kill()

        await check_published(installation, driver)


async def kill_during(broker: Broker, part: list[Sent], installation: Installation, supervised: Supervised) -> None:
    """Kill `broker` in the middle of `part`, finish the part without it, and start it again."""
    supervised.signal(signal.SIGSTOP)
    # In one transaction, so that no record is late.
    await installation.send(part, transactional_id=f"the-test-{broker.port}")
    async with LagWatch(installation) as watch:
        supervised.signal(signal.SIGCONT)
        left = await supervised.until_left(len(part) * 3 // 4, watch)
        assert left > 0, "all was done before the broker was lost"
        broker.kill()
    async with LagWatch(installation) as watch:
        await supervised.until_left(0, watch)
    await asyncio.to_thread(broker.start)


async def test_too_few_replicas_in_sync_are_waited_for(namespace: str) -> None:
    with cluster() as brokers:
        bootstrap = ",".join(broker.address(broker.port) for broker in brokers)
        own = {"OBOL_REPLICATION": str(BROKERS), "CROESUS_HOST": brokers[0].address(brokers[0].port)}
        installation = Installation(bootstrap, namespace, 1, own)
        await installation.provision()
        with Worker(installation, "--without-web") as worker:
            await asyncio.to_thread(worker.wait_for, "are active")
            name = installation.settings.topic(RESULTS.name)
            await configure(installation, name, min_insync_replicas="3", message_timestamp_type="CreateTime")
            brokers[2].kill()
            await installation.send([stop_command(installation, 1)])
            await asyncio.to_thread(worker.wait_for, "waiting for the commit of partition 0")
            await asyncio.to_thread(brokers[2].start)
            await wait_for_results(installation, worker, {"c1"})
            assert await asyncio.to_thread(worker.stop) == 0
        assert await results(installation) == {"c1"}
        assert len(await installation.read(RESULTS.name)) == 1
