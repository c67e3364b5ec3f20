"""Another program's transaction that stays open in an input, on a real broker with real workers."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING

import pytest
from aiokafka import AIOKafkaProducer

from tests.support.accidents import stop_command, wait_for_results
from tests.support.http_get import get
from tests.support.workers import Installation, Worker
from topics.catalogue import COMMANDS, PRICES

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.kafka

LONG_MS = 600_000


def price(amount: str) -> bytes:
    return json.dumps({"profile": "dedicated.h100.1x", "price": amount, "currency": "JPY"}).encode()


@asynccontextmanager
async def transaction(installation: Installation) -> AsyncIterator[AIOKafkaProducer]:
    """A producer with an open transaction, which is committed at the end."""
    producer = AIOKafkaProducer(
        bootstrap_servers=installation.bootstrap,
        transactional_id=f"{installation.namespace}-other",
        transaction_timeout_ms=LONG_MS,
    )
    await producer.start()
    try:
        async with producer.transaction():
            yield producer
    finally:
        await producer.stop()


async def priced(worker: Worker, amount: str) -> None:
    """Wait until a worker shows this price."""
    async with asyncio.timeout(60.0):
        while True:
            got = await asyncio.to_thread(get, f"{worker.url}/prices", 10)
            assert got.status == HTTPStatus.OK
            if [item["price"] for item in got.json["items"]] == [amount]:
                return
            worker.check()
            await asyncio.sleep(0.1)


async def test_workers_start_though_a_transaction_stays_open_on_the_prices(
    kafka_bootstrap: str, namespace: str
) -> None:
    installation = Installation(kafka_bootstrap, namespace, partitions=1, environ={"OBOL_CLOCK": "wall"})
    await installation.provision()
    name = installation.settings.topic(PRICES.name)
    producer = AIOKafkaProducer(bootstrap_servers=kafka_bootstrap)
    await producer.start()
    await producer.send_and_wait(name, price("1"), key=b"dedicated.h100.1x", partition=0)
    line = f"{name} partition 0: a transaction of another program is open since offset 1"
    async with transaction(installation) as other:
        await other.send_and_wait(name, price("2"), key=b"dedicated.h100.1x", partition=0)
        for number in range(2):
            with Worker(installation) as worker:
                await asyncio.to_thread(worker.wait_for, f"{line}, and nothing after that can be read")
                await asyncio.to_thread(worker.wait_for, "starting without the prices there")
                await asyncio.to_thread(worker.wait_for, "[^Worker]: Ready")
                await priced(worker, "1")
                await installation.send([stop_command(installation, number)])
                await wait_for_results(installation, worker, {f"c{number}"})
    # One that ends while a worker waits for it is no reason to start without its prices.
    async with transaction(installation) as other:
        await other.send_and_wait(name, price("3"), key=b"dedicated.h100.1x", partition=0)
        waiting = Worker(installation)
        await asyncio.to_thread(waiting.wait_for, "waiting for it, for 15 s at most")
    with waiting as worker:
        await asyncio.to_thread(worker.wait_for, "[^Worker]: Ready")
        await priced(worker, "3")
        assert "starting without" not in worker.tail(400)
    await producer.stop()


async def test_an_open_transaction_on_an_input_is_reported_while_the_others_go_on(
    kafka_bootstrap: str, namespace: str
) -> None:
    installation = Installation(kafka_bootstrap, namespace, partitions=2, environ={"OBOL_CLOCK": "wall"})
    await installation.provision()
    orgs = {installation.place("", org_id): org_id for org_id in map("org-{}".format, range(20))}
    name = installation.settings.topic(COMMANDS.name)
    line = f"{name} partition 0: a transaction of another program is open since offset"
    with Worker(installation) as worker:
        await asyncio.to_thread(worker.wait_for, "are active")
        async with transaction(installation) as other:
            first = stop_command(installation, 1, orgs[0])
            await other.send_and_wait(name, first.value, key=first.key, partition=0, timestamp_ms=first.timestamp)
            await installation.send([stop_command(installation, 2, orgs[0]), stop_command(installation, 3, orgs[1])])
            await wait_for_results(installation, worker, {"c3"})
            await asyncio.to_thread(worker.wait_for, line)
            await asyncio.to_thread(worker.wait_for, "[^Worker]: Ready")
            assert line in "\n".join(get(f"{worker.url}/health", 10).json["problems"])
            assert "obol_open_transactions 1.0" in get(f"{worker.url}/metrics", 10).text
            assert get(f"{worker.url}/ready", 10).status == HTTPStatus.OK
        await wait_for_results(installation, worker, {"c1", "c2", "c3"})
        await asyncio.to_thread(worker.wait_for, "no open transaction blocks an input any more")
        assert get(f"{worker.url}/health", 10).json["problems"] == []
        assert await asyncio.to_thread(worker.stop) == 0
