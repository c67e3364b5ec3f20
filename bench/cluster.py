"""Queries to the cluster: end offsets, committed offsets, records; and deleting the run's topics."""

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from streams.settings import Settings


class Cluster:
    """The cluster of one installation."""

    def __init__(self, settings: Settings, admin: Any, consumer: Any) -> None:
        self.settings = settings
        self._admin = admin
        self._consumer = consumer

    async def ends(self, topic: str, partitions: int) -> list[int]:
        """Return the end offset of each partition of a topic (name with the namespace)."""
        tps = [TopicPartition(topic, partition) for partition in range(partitions)]
        found = await self._consumer.end_offsets(tps)
        return [found[tp] for tp in tps]

    async def committed(self, group: str, topic: str, partitions: int) -> list[int]:
        """Return the committed offset of `group` in each partition of a topic; 0 if there is none."""
        tps = [TopicPartition(topic, partition) for partition in range(partitions)]
        found = await self._admin.list_consumer_group_offsets(group, partitions=tps)
        return [max(0, found[tp].offset) if tp in found else 0 for tp in tps]

    async def read(
        self, topic: str, partitions: int, starts: Sequence[int] | None = None
    ) -> AsyncIterator[tuple[bytes, bytes | None]]:
        """Yield the key and value of every committed record of a topic, or of those from `starts` on."""
        tps = [TopicPartition(topic, partition) for partition in range(partitions)]
        ends = await self._consumer.end_offsets(tps)
        self._consumer.assign(tps)
        await self._consumer.seek_to_beginning(*tps)
        for tp, start in zip(tps, starts or (), strict=False):
            self._consumer.seek(tp, start)
        while behind := [tp for tp in tps if await self._consumer.position(tp) < ends[tp]]:
            for records in (await self._consumer.getmany(*behind, timeout_ms=200)).values():
                for record in records:
                    yield record.key, record.value
        self._consumer.unsubscribe()

    async def count(self, topic: str, partitions: int) -> int:
        """Count the committed records of a topic."""
        count = 0
        async for _ in self.read(topic, partitions):
            count += 1
        return count

    async def topics(self) -> list[str]:
        """Return the names of this installation's topics."""
        return sorted(name for name in await self._admin.list_topics() if name.startswith(self.settings.topic("")))

    async def create(self, names: Iterable[str], partitions: int) -> None:
        """Create topics (names with the namespace)."""
        await self._admin.create_topics([NewTopic(name, partitions, self.settings.replication) for name in names])

    async def remove(self) -> None:
        """Delete all topics of this installation."""
        if names := await self.topics():
            await self._admin.delete_topics(names)


@asynccontextmanager
async def cluster(settings: Settings) -> AsyncIterator[Cluster]:
    """Yield a connected cluster."""
    admin = AIOKafkaAdminClient(**settings.kafka_client_options())
    try:
        await admin.start()
        async with consumer(settings, isolation_level="read_committed", auto_offset_reset="earliest") as reader:
            yield Cluster(settings, admin, reader)
    finally:
        await admin.close()


@asynccontextmanager
async def consumer(settings: Settings, **options: Any) -> AsyncIterator[Any]:
    """Yield a connected consumer in no group, with more `options` of aiokafka."""
    client = AIOKafkaConsumer(**settings.kafka_client_options(), enable_auto_commit=False, **options)
    try:
        await client.start()
        yield client
    finally:
        await client.stop()
