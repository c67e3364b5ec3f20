"""Questions to the broker about where logs begin and end."""

from collections.abc import Iterable
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition


class Ends:
    """Asks for offsets of any partitions, all in one request to each broker.

    An end here is the high watermark, records of open transactions included: those were there before the question, so
    they are waited for, and a replay will find them in the same place. The consumer reaches it once they are decided.
    """

    def __init__(self, client_options: dict[str, Any], client_id: str) -> None:
        self._options = client_options
        self._client_id = client_id
        self._consumer: Any = None

    async def start(self) -> None:
        """Connect."""
        self._consumer = AIOKafkaConsumer(
            **self._options, client_id=self._client_id, isolation_level="read_uncommitted", enable_auto_commit=False
        )
        await self._consumer.start()

    async def ends(self, partitions: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
        """Give the offset after the last record of each (topic, partition). Raises `KafkaError`."""
        found = await self._consumer.end_offsets(self._named(partitions))
        return {(tp.topic, tp.partition): offset for tp, offset in found.items()}

    async def beginnings(self, partitions: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
        """Give the offset of the first record that is still there of each (topic, partition). Raises `KafkaError`."""
        found = await self._consumer.beginning_offsets(self._named(partitions))
        return {(tp.topic, tp.partition): offset for tp, offset in found.items()}

    def _named(self, partitions: Iterable[tuple[str, int]]) -> list[TopicPartition]:
        asked = [TopicPartition(*partition) for partition in partitions]
        # Named at once, the topics it does not yet know are found with one request; else each costs a retry's rest.
        for topic in {tp.topic for tp in asked}:
            self._consumer._client.add_topic(topic)  # noqa: SLF001
        return asked

    async def stop(self) -> None:
        """Disconnect."""
        if self._consumer is not None:
            await self._consumer.stop()
