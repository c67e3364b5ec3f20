"""An installation whose inputs are written as raw batches."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from aiokafka.admin import AIOKafkaAdminClient

from tests.support.raw_batches import RawRecord, batch, send_batch
from tests.support.workers import Installation, LagWatch, Worker
from topics.catalogue import CLOCK, COMMANDS, HEARTBEATS, INBOUND, PRICES, PROGRESS, TOPICS
from topics.provision import ensure_topics, new_topic

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

MINUTE_MS = 60_000
ANY_TIME = {f"message.timestamp.{which}.max.ms": str(2**63 - 1) for which in ("before", "after")}
"""The default before Kafka 3.6."""

TICK = RawRecord(b'{"type":"tick"}')


def value(**fields: Any) -> bytes:
    """Return an object as JSON."""
    return json.dumps(fields).encode()


def price(profile: str = "dedicated.h100.1x", **more: Any) -> RawRecord:
    """Return a price of 100."""
    return RawRecord(value(profile=profile, price="100", currency="JPY"), profile.encode(), **more)


def create(command_id: str, deployment_id: str, gpu_type: str = "h100", **more: Any) -> RawRecord:
    """Return a command that creates a deployment."""
    fields = {"command_id": command_id, "org_id": "acme", "type": "create_deployment", "deployment_id": deployment_id}
    return RawRecord(value(**fields, model="m", gpu_type=gpu_type, gpu_count=1), b"acme", **more)


def heartbeat(**more: Any) -> RawRecord:
    """Return a heartbeat of the replica of `RawLog.running`."""
    return RawRecord(value(org_id="acme", replica_id="d-r1"), b"acme", **more)


class RawLog:
    """An installation, and raw batches that are written to its inputs."""

    def __init__(self, bootstrap: str, namespace: str, partitions: int = 2) -> None:
        self.installation = Installation(bootstrap, namespace, partitions=partitions)
        self.home = self.installation.place(HEARTBEATS.name, "acme")
        self.start_ms = (int(time.time() * 1_000) - 3_600_000) // MINUTE_MS * MINUTE_MS

    async def provision(self, config: Mapping[str, str] | None = None, *, outbound_too: bool = False) -> None:
        """Create the topics, the inbound ones (or all) with more of Kafka's configuration."""
        settings = self.installation.settings
        admin = AIOKafkaAdminClient(bootstrap_servers=self.installation.bootstrap)
        await admin.start()
        try:
            topics = [
                (new_topic(spec, settings), config or {} if outbound_too or spec in INBOUND else {})
                for spec in TOPICS.values()
            ]
            await ensure_topics(admin, [replace(topic, config={**topic.config, **more}) for topic, more in topics])
        finally:
            await admin.close()

    async def send(
        self,
        topic: str,
        records: Iterable[RawRecord],
        minute: float,
        *,
        codec: str = "none",
        partition: int | None = None,
    ) -> int:
        """Write a batch `minute` minutes after the start, to the org's partition."""
        place = (0 if topic == PRICES.name else self.home) if partition is None else partition
        at_ms = self.start_ms + int(minute * MINUTE_MS)
        content = batch(records, codec=codec, timestamp_ms=at_ms)
        return await send_batch(self.installation.bootstrap, self.installation.settings.topic(topic), place, content)

    async def run_until_caught_up(self) -> None:
        """Run a worker, and kill it once it has applied everything."""
        with Worker(self.installation, "--without-web") as worker:
            async with LagWatch(self.installation) as watch:
                await watch.wait_until(0, [worker])
            await self.installation.wait_until_caught_up([worker])

    async def values(self, topic: str) -> list[Any]:
        """Return the values of a topic's records."""
        return [json.loads(record.value or b"") for record in await self.installation.read(topic)]

    async def running(self) -> None:
        """Write the records of a replica that runs from the start on."""
        await self.send(PRICES.name, [price()], -1)
        await self.send(COMMANDS.name, [create("c", "d")], 0)
        fields = {"event_id": "e", "org_id": "acme", "replica_id": "d-r1", "status": "RUNNING", "message": "healthy"}
        await self.send(PROGRESS.name, [RawRecord(value(**fields), b"acme")], 0)

    async def tick(self, minute: int) -> None:
        """Write a tick to each partition."""
        for partition in range(self.installation.partitions):
            await self.send(CLOCK.name, [TICK], minute, partition=partition)
