"""The broker, as far as a run needs it: where topics end, how far groups have read, and away with the topics after."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient

from streams.settings import Settings


class Cluster:
    """Questions to the cluster of one installation."""

    def __init__(self, settings: Settings, admin: Any, consumer: Any) -> None:
        self.settings = settings
        self._admin = admin
        self._consumer = consumer

    async def ends(self, topic: str, partitions: int) -> list[int]:
        """Give the end offset of each partition of a topic, by its full name."""
        places = [TopicPartition(topic, partition) for partition in range(partitions)]
        found = await self._consumer.end_offsets(places)
        return [found[place] for place in places]

    async def committed(self, group: str, topic: str, partitions: int) -> list[int]:
        """Give the offset that `group` has committed in each partition of a topic; 0 for none."""
        places = [TopicPartition(topic, partition) for partition in range(partitions)]
        found = await self._admin.list_consumer_group_offsets(group, partitions=places)
        return [max(0, found[place].offset) if place in found else 0 for place in places]

    async def read(self, topic: str, partitions: int) -> AsyncIterator[tuple[bytes, bytes]]:
        """Give every committed (key, value) of a topic, partition by partition."""
        places = [TopicPartition(topic, partition) for partition in range(partitions)]
        ends = await self._consumer.end_offsets(places)
        self._consumer.assign(places)
        await self._consumer.seek_to_beginning(*places)
        while behind := [place for place in places if await self._consumer.position(place) < ends[place]]:
            for records in (await self._consumer.getmany(*behind, timeout_ms=200)).values():
                for record in records:
                    yield record.key, record.value
        self._consumer.unsubscribe()

    async def count(self, topic: str, partitions: int) -> int:
        """Count the committed records of a topic."""
        found = 0
        async for _ in self.read(topic, partitions):
            found += 1
        return found

    async def topics(self) -> list[str]:
        """List this installation's topics, by their full names."""
        return sorted(name for name in await self._admin.list_topics() if name.startswith(self.settings.topic("")))

    async def remove(self) -> None:
        """Delete every topic of this installation."""
        if names := await self.topics():
            await self._admin.delete_topics(names)


@asynccontextmanager
async def cluster(settings: Settings) -> AsyncIterator[Cluster]:
    """Connect; closed at the end."""
    options = settings.kafka_client_options()
    admin = AIOKafkaAdminClient(**options)
    consumer = AIOKafkaConsumer(
        **options, isolation_level="read_committed", auto_offset_reset="earliest", enable_auto_commit=False
    )
    await admin.start()
    try:
        await consumer.start()
        try:
            yield Cluster(settings, admin, consumer)
        finally:
            await consumer.stop()
    finally:
        await admin.close()
