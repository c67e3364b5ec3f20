"""Commits out: a shard's rows, its messages and its input offsets in one transaction.

Each partition has a producer of its own, whose transactional id is the partition's. Starting it fences the producer
that wrote for the partition before, and aborts its open transaction.
"""

from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from streams.engine.ports import Clock, Delivery, Kafka, TopicPartition, TransactionalProducer
from streams.engine.shard import Commit
from topics.catalogue import USAGE

_NO_HEADERS: Final[list[tuple[str, bytes]]] = []


class Committer:
    """Writes the commits of one partition.

    `topic` gives the full name of a topic, `changelog` that of a table's changelog.
    """

    def __init__(
        self,
        partition: int,
        *,
        kafka: Kafka,
        clock: Clock,
        app_id: str,
        topic: Callable[[str], str],
        changelog: Callable[[str], str],
    ) -> None:
        self.partition = partition
        self._kafka = kafka
        self._clock = clock
        self._app_id = app_id
        self._topic = topic
        self._changelog = changelog
        self._producer: TransactionalProducer | None = None

    async def fence(self) -> None:
        """Fence the producer that wrote for this partition before; its changelogs and offsets then stay as they are."""
        await self.stop()
        self._producer = self._kafka.transactional_producer(f"{self._app_id}-{self.partition}")
        await self._producer.start()

    async def commit(self, commit: Commit) -> dict[str, int]:
        """Write one transaction; returns by table the last offset of its changelog, which is the commit marker's.

        Raises `FencedError` when the partition has another owner. When anything is raised, nothing may be written
        after it: the transaction is not committed, or nobody knows.
        """
        assert self._producer is not None, "a partition is fenced before it commits"
        try:
            return await self._write(self._producer, commit)
        except Exception as error:
            cause = self._producer.cause_of(error)
            if cause is error:
                raise
            raise cause from error

    async def _write(self, producer: TransactionalProducer, commit: Commit) -> dict[str, int]:
        now_ms = self._clock.now_ms()
        changelogs = {table: (self._changelog(table), self.partition) for table in commit.rows}
        places = dict.fromkeys((message.topic, message.partition) for message in commit.outputs)
        if commit.charges:
            places[USAGE.name, self.partition] = None
        outputs = {(topic, partition): (self._topic(topic), partition) for topic, partition in places}
        await producer.begin()
        producer.add_partitions((*changelogs.values(), *outputs.values()))
        row_writers = {table: _Writer(producer, changelog) for table, changelog in changelogs.items()}
        writers = {place: _Writer(producer, output) for place, output in outputs.items()}
        for table, rows in commit.rows.items():
            await row_writers[table].write((key, value, now_ms, _NO_HEADERS) for key, value in rows)
        for topic, partition, key, value, timestamp, headers in commit.outputs:
            await writers[topic, partition].write([(key, value, timestamp, list(headers))])
        if commit.charges:
            usage = writers[USAGE.name, self.partition]
            await usage.write((key, value, timestamp, _NO_HEADERS) for key, value, timestamp in commit.usage())
        for writer in (*row_writers.values(), *writers.values()):
            await writer.flush()
        # While the offsets' group joins the transaction, the broker would refuse batches: they are stored first.
        ends = {table: await writer.stored() for table, writer in row_writers.items()}
        for writer in writers.values():
            await writer.stored()
        offsets = {(self._topic(topic), self.partition): offset for topic, offset in commit.offsets.items()}
        await producer.send_offsets(offsets, self._app_id)
        await producer.commit()
        return ends

    async def stop(self) -> None:
        """Disconnect. A transaction that is open is aborted by the partition's next owner."""
        producer, self._producer = self._producer, None
        if producer is not None:
            await producer.stop()


class _Writer:
    """Writes the records of a transaction to one partition, in batches."""

    def __init__(self, producer: TransactionalProducer, partition: TopicPartition) -> None:
        self._producer = producer
        self._partition = partition
        self._batch = producer.create_batch()
        self._sent: list[tuple[Awaitable[Delivery], int]] = []

    async def write(self, records: Iterable[tuple[bytes | None, bytes | None, int, list[tuple[str, bytes]]]]) -> None:
        """Add records, given as key, value, timestamp and headers. Each full batch is sent."""
        append = self._batch.append
        for key, value, timestamp, headers in records:
            if append(key=key, value=value, timestamp=timestamp, headers=headers) is None:
                await self.flush()
                append = self._batch.append
                append(key=key, value=value, timestamp=timestamp, headers=headers)

    async def flush(self) -> None:
        """Send what was added; waits only until the batch before it is sent."""
        batch = self._batch
        count = batch.record_count()
        if not count:
            return
        batch.close()
        self._batch = self._producer.create_batch()
        self._sent.append((await self._producer.send_batch(batch, self._partition), count))

    async def stored(self) -> int:
        """Wait until everything sent is stored; returns the offset after the last record."""
        after = 0
        for delivery, count in self._sent:
            after = (await delivery).offset + count
        return after
