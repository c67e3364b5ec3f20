"""One transaction out: a shard's rows, its messages and its input offsets, all or nothing.

Each partition has a producer of its own, whose transactional id is the partition's: starting it locks out, and ends the
open transaction of, whoever wrote for the partition before.
"""

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import Any, Final

from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.errors import InvalidProducerEpoch, InvalidProducerIdMapping, ProducerFenced

from streams.engine.shard import Commit
from topics.catalogue import USAGE

MAX_BATCH_BYTES: Final = 900_000
"""Of one produce batch: below Kafka's own limit for it, 1 MiB."""

TRANSACTION_TIMEOUT_MS: Final = 300_000
"""A tick over very many windows is one transaction; a dead worker's is ended by its successor, long before this."""

FENCED: Final = (ProducerFenced, InvalidProducerEpoch, InvalidProducerIdMapping)
"""What a commit raises when another worker has taken the partition over."""


_NO_HEADERS: Final[list[tuple[str, bytes]]] = []


class Committer:
    """Writes the commits of one partition.

    `topic` gives a topic's full name, `changelog` that of a table's changelog. `restored_to` is, by table, the offset
    up to which the changelog is in memory: moved on by whoever restores, and by each commit, past its marker.
    """

    def __init__(
        self,
        partition: int,
        *,
        app_id: str,
        client_options: dict[str, Any],
        topic: Callable[[str], str],
        changelog: Callable[[str], str],
    ) -> None:
        self.partition = partition
        self.restored_to: dict[str, int] = {}
        self.lock = asyncio.Lock()
        self.urgent = asyncio.Event()
        self._app_id = app_id
        self._client_options = client_options
        self._topic = topic
        self._changelog = changelog
        self._producer: Any = None

    async def fence(self) -> None:
        """Lock out whoever wrote for this partition before; afterwards its changelogs and offsets stand still."""
        await self.close()
        transactional_id = f"{self._app_id}-{self.partition}"
        self._producer = AIOKafkaProducer(
            **self._client_options,
            client_id=transactional_id,
            transactional_id=transactional_id,
            acks="all",
            max_batch_size=MAX_BATCH_BYTES,
            transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
        )
        await self._producer.start()

    async def commit(self, commit: Commit) -> None:
        """Write one transaction. When it raises, nothing of it counts, and nothing may be written after it.

        Raises one of `FENCED` when another worker has taken the partition over, at whatever step that comes to light.
        """
        try:
            await self._write(commit)
        except Exception as error:
            why = self._why(error)
            if why is error:
                raise
            raise why from error

    def _why(self, error: Exception) -> BaseException:
        """What has ended the transaction. The producer hears of it in the background, and then refuses each call.

        Depending on the call that comes next, `error` says only that there is no transaction.
        """
        end = self._producer._txn_manager.wait_for_transaction_end()  # noqa: SLF001 - it is told nowhere else
        heard = end.exception() if end is not None and end.done() and not end.cancelled() else None
        why = known = heard or error
        while why is not None and not isinstance(why, FENCED):
            why = why.__cause__
        return why or known

    async def _write(self, commit: Commit) -> None:
        now_ms = time.time_ns() // 1_000_000
        await self._producer.begin_transaction()
        changelogs = {table: self._outlet(self._changelog(table)) for table in commit.rows}
        # All are there before any is written to: see `_Outlet`.
        places = dict.fromkeys((message.topic, message.partition) for message in commit.outputs)
        if commit.charges:
            places[USAGE.name, self.partition] = None
        outlets = {(topic, partition): self._outlet(self._topic(topic), partition) for topic, partition in places}
        for table, rows in commit.rows.items():
            await changelogs[table].write((key, value, now_ms, _NO_HEADERS) for key, value in rows)
        for topic, partition, key, value, timestamp, headers in commit.outputs:
            await outlets[topic, partition].write([(key, value, timestamp, list(headers))])
        if commit.charges:
            usage = outlets[USAGE.name, self.partition]
            await usage.write((key, value, timestamp, _NO_HEADERS) for key, value, timestamp in commit.usage())
        for outlet in (*changelogs.values(), *outlets.values()):
            await outlet.flush()
        # Only then the offsets: while their group joins the transaction, the broker would refuse what is being written.
        for outlet in (*changelogs.values(), *outlets.values()):
            await outlet.delivered()
        await self._producer.send_offsets_to_transaction(
            {TopicPartition(self._topic(topic), self.partition): offset for topic, offset in commit.offsets.items()},
            self._app_id,
        )
        await self._producer.commit_transaction()
        for table, outlet in changelogs.items():
            # The offset after the last row is the commit marker's.
            self.restored_to[table] = await outlet.delivered()

    def _outlet(self, topic: str, partition: int | None = None) -> "_Outlet":
        return _Outlet(self._producer, topic, self.partition if partition is None else partition)

    async def close(self) -> None:
        """Let go of the partition; what is open is aborted by whoever comes next."""
        producer, self._producer = self._producer, None
        if producer is not None:
            await producer.stop()


class _Outlet:
    """Batches on their way to one partition of a topic."""

    def __init__(self, producer: Any, topic: str, partition: int) -> None:
        self._producer = producer
        self._topic = topic
        self._partition = partition
        # Named at once, all partitions join the transaction in one request. One by one, each makes the broker refuse,
        # for a moment, what is written to the others: it asks the coordinator, which is still writing.
        producer._txn_manager.maybe_add_partition_to_txn(TopicPartition(topic, partition))  # noqa: SLF001
        self._batch: Any = producer.create_batch()
        self._sent: list[tuple[asyncio.Future[Any], int]] = []

    async def write(self, records: Iterable[tuple[bytes | None, bytes | None, int, list[tuple[str, bytes]]]]) -> None:
        """Add records, given as key, value, timestamp and headers; whenever a batch is full, it is sent."""
        append = self._batch.append
        for key, value, timestamp, headers in records:
            if append(key=key, value=value, timestamp=timestamp, headers=headers) is None:
                await self.flush()
                append = self._batch.append
                append(key=key, value=value, timestamp=timestamp, headers=headers)

    async def flush(self) -> None:
        """Send what is gathered; waits only for the batch before it to be on its way."""
        batch = self._batch
        count = batch.record_count()
        if not count:
            return
        batch.close()
        self._batch = self._producer.create_batch()
        self._sent.append((await self._producer.send_batch(batch, self._topic, partition=self._partition), count))

    async def delivered(self) -> int:
        """Wait until all is stored; returns the offset after the last record."""
        after = 0
        for future, count in self._sent:
            after = (await future).offset + count
        return after
