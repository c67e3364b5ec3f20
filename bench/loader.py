"""Writes records in whole batches, compressed with lz4."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from aiokafka import AIOKafkaProducer

from bench.fleet import KeyValue, RecordsByPartition
from streams.settings import Settings

_BATCH_BYTES: Final = 256 * 1024
_SLICE_RECORDS: Final = 20_000
"""The number of records sent before waiting for their acknowledgements."""


class Loader:
    """Writes records to the topics of one installation."""

    def __init__(self, settings: Settings, producer: Any) -> None:
        self._settings = settings
        self._producer = producer

    async def load(
        self, topic: str, records: RecordsByPartition, at_ms: int, advance: Callable[[int], None] = lambda _: None
    ) -> None:
        """Write records with one timestamp to `topic` (name without the namespace); `advance` gets each count."""
        for partition, in_partition in records.items():
            for start in range(0, len(in_partition), _SLICE_RECORDS):
                part = in_partition[start : start + _SLICE_RECORDS]
                await self._write(topic, partition, part, at_ms)
                advance(len(part))

    async def load_at_once(self, topic: str, records: RecordsByPartition, times_ms: Sequence[int]) -> None:
        """Write records once for each time, as fast as possible: all batches are built before the first is sent."""
        batches = [
            (partition, batch)
            for at_ms in times_ms
            for partition, in_partition in records.items()
            for batch in self._batches(in_partition, at_ms)
        ]
        await self._send(topic, batches)

    async def _write(self, topic: str, partition: int, records: Sequence[KeyValue], at_ms: int) -> None:
        await self._send(topic, ((partition, batch) for batch in self._batches(records, at_ms)))

    async def _send(self, topic: str, batches: Iterable[tuple[int, Any]]) -> None:
        name, producer = self._settings.topic(topic), self._producer
        await asyncio.gather(
            *[await producer.send_batch(batch, name, partition=partition) for partition, batch in batches]
        )

    def _batches(self, records: Sequence[KeyValue], at_ms: int) -> Iterator[Any]:
        batch = self._producer.create_batch()
        for key, value in records:
            if batch.append(key=key, value=value, timestamp=at_ms) is None:
                yield batch
                batch = self._producer.create_batch()
                batch.append(key=key, value=value, timestamp=at_ms)
        yield batch


@asynccontextmanager
async def loader(settings: Settings) -> AsyncIterator[Loader]:
    """Yield a connected loader."""
    producer = AIOKafkaProducer(
        **settings.kafka_client_options(), acks="all", compression_type="lz4", max_batch_size=_BATCH_BYTES
    )
    try:
        await producer.start()
        yield Loader(settings, producer)
    finally:
        await producer.stop()
