"""The Kafka ports over aiokafka, and the consumer port over Faust's consumer, which is aiokafka's, too."""

from collections.abc import Awaitable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast

import faust
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import InvalidProducerEpoch, InvalidProducerIdMapping, ProducerFenced
from faust.types.tuples import TP

from streams.engine import ports
from streams.engine.merge import Record
from streams.engine.ports import Delivery, FencedError, ProduceBatch

if TYPE_CHECKING:
    from aiokafka.producer.message_accumulator import BatchBuilder
    from aiokafka.producer.transaction_manager import TransactionManager

ClientT = TypeVar("ClientT", AIOKafkaConsumer, AIOKafkaProducer)

MAX_BATCH_BYTES: Final = 900_000
"""The size of a produce batch: below 1 MiB, the broker's default limit."""

TRANSACTION_TIMEOUT_MS: Final = 300_000
"""A tick over very many windows is one transaction. A dead worker's is aborted by its successor, long before this."""

READ_WAIT_MS: Final = 100
"""How long a reader waits where there is nothing to read."""

_FENCED: Final = (ProducerFenced, InvalidProducerEpoch, InvalidProducerIdMapping)
"""What the broker answers a producer whose transactional id another has taken; the last: or whose id has expired."""


class AioKafka(ports.Kafka):
    """Makes aiokafka's clients; `options` are the arguments that all of them get."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._options = options

    def admin(self, client_id: str) -> "AioKafkaAdmin":
        return AioKafkaAdmin(self._options, client_id)

    def reader(self, partition: ports.TopicPartition) -> "AioKafkaReader":
        return AioKafkaReader(self._options, partition)

    def producer(self) -> "AioKafkaProducer":
        return AioKafkaProducer(self._options)

    def transactional_producer(self, transactional_id: str) -> "AioKafkaTransactionalProducer":
        return AioKafkaTransactionalProducer(self._options, transactional_id)


class FaustConsumer(ports.Consumer):
    """The consumer of a Faust app."""

    def __init__(self, app: faust.App) -> None:
        self._app = app

    async def seek(self, positions: Mapping[ports.TopicPartition, int]) -> None:
        await self._app.consumer.seek_wait({TP(*partition): offset for partition, offset in positions.items()})

    def pause(self, partition: ports.TopicPartition) -> None:
        self._app.consumer.on_buffer_full(TP(*partition))

    def resume(self, partition: ports.TopicPartition) -> None:
        self._app.consumer.on_buffer_drop(TP(*partition))


class _Client(Generic[ClientT]):
    """A client of aiokafka that is made when it is started, for it needs the running event loop."""

    def __init__(self, kind: type[ClientT], options: Mapping[str, Any], **more: Any) -> None:
        self._kind: type[ClientT] = kind
        self._options = {**options, **more}
        self._started: ClientT | None = None

    @property
    def _client(self) -> ClientT:
        assert self._started is not None
        return self._started

    async def start(self) -> None:
        self._started = self._kind(**self._options)
        await self._started.start()

    async def stop(self) -> None:
        client, self._started = self._started, None
        if client is not None:
            await client.stop()


class AioKafkaAdmin(_Client[AIOKafkaConsumer], ports.Admin):
    """Asks with a consumer that reads nothing."""

    def __init__(self, options: Mapping[str, Any], client_id: str) -> None:
        # The end offset of a consumer with `read_committed` is the last stable offset.
        isolation: dict[str, Any] = {"isolation_level": "read_uncommitted", "enable_auto_commit": False}
        super().__init__(AIOKafkaConsumer, options, client_id=client_id, **isolation)

    async def beginning_offsets(self, partitions: Iterable[ports.TopicPartition]) -> dict[ports.TopicPartition, int]:
        return _plain(await self._client.beginning_offsets(self._known(partitions)))

    async def end_offsets(self, partitions: Iterable[ports.TopicPartition]) -> dict[ports.TopicPartition, int]:
        return _plain(await self._client.end_offsets(self._known(partitions)))

    def _known(self, partitions: Iterable[ports.TopicPartition]) -> list[TopicPartition]:
        asked = [TopicPartition(*partition) for partition in partitions]
        # Added together, unknown topics are found with one metadata request; else each waits for a retry of its own.
        for topic in {partition.topic for partition in asked}:
            self._client._client.add_topic(topic)  # noqa: SLF001 - there is no public way
        return asked


def _plain(offsets: Mapping[TopicPartition, int]) -> dict[ports.TopicPartition, int]:
    return {(partition.topic, partition.partition): offset for partition, offset in offsets.items()}


class AioKafkaReader(_Client[AIOKafkaConsumer], ports.Reader):
    """Reads with a consumer that is assigned one partition."""

    def __init__(self, options: Mapping[str, Any], partition: ports.TopicPartition) -> None:
        super().__init__(
            AIOKafkaConsumer,
            options,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            fetch_max_wait_ms=READ_WAIT_MS,
        )
        self._partition = TopicPartition(*partition)

    async def start(self) -> None:
        await super().start()
        self._client.assign([self._partition])
        await self._client.seek_to_beginning(self._partition)

    async def last_stable_offset(self) -> int:
        ends: dict[TopicPartition, int] = await self._client.end_offsets([self._partition])
        return ends[self._partition]

    async def read(self) -> tuple[Sequence[Record], int]:
        found = await self._client.getmany(self._partition, timeout_ms=READ_WAIT_MS)
        return found.get(self._partition, ()), await self._client.position(self._partition)


class AioKafkaProducer(_Client[AIOKafkaProducer], ports.Producer):
    """An idempotent producer."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        super().__init__(AIOKafkaProducer, options, enable_idempotence=True)

    async def send(self, partition: ports.TopicPartition, value: bytes, timestamp_ms: int) -> None:
        topic, number = partition
        await self._client.send_and_wait(topic, value, partition=number, timestamp_ms=timestamp_ms)


class AioKafkaTransactionalProducer(_Client[AIOKafkaProducer], ports.TransactionalProducer):
    """A producer with a transactional id."""

    def __init__(self, options: Mapping[str, Any], transactional_id: str) -> None:
        super().__init__(
            AIOKafkaProducer,
            options,
            client_id=transactional_id,
            transactional_id=transactional_id,
            acks="all",
            max_batch_size=MAX_BATCH_BYTES,
            transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
        )

    @property
    def _transactions(self) -> "TransactionManager":
        manager = self._client._txn_manager  # noqa: SLF001 - nothing public has it
        assert manager is not None
        return manager

    async def begin(self) -> None:
        await self._client.begin_transaction()

    def add_partitions(self, partitions: Iterable[ports.TopicPartition]) -> None:
        # By default each joins with its first batch, in a request of its own; meanwhile the coordinator, which is
        # still writing, has the broker refuse for a moment what is sent to the others.
        for partition in partitions:
            self._transactions.maybe_add_partition_to_txn(TopicPartition(*partition))

    def create_batch(self) -> ProduceBatch:
        batch: ProduceBatch = self._client.create_batch()
        return batch

    async def send_batch(self, batch: ProduceBatch, partition: ports.TopicPartition) -> Awaitable[Delivery]:
        topic, number = partition
        delivery: Awaitable[Delivery] = await self._client.send_batch(
            cast("BatchBuilder", batch), topic, partition=number
        )
        return delivery

    async def send_offsets(self, offsets: Mapping[ports.TopicPartition, int], group: str) -> None:
        by_partition = {TopicPartition(*partition): offset for partition, offset in offsets.items()}
        await self._client.send_offsets_to_transaction(by_partition, group)

    async def commit(self) -> None:
        await self._client.commit_transaction()

    def cause_of(self, error: Exception) -> Exception:
        # The producer learns in the background what has ended the transaction, and refuses the next call with an
        # error that says only that there is none.
        end = self._transactions.wait_for_transaction_end()
        ended = end.exception() if end is not None and end.done() and not end.cancelled() else None
        first: BaseException = ended or error
        cause: BaseException | None = first
        while cause is not None and not isinstance(cause, _FENCED):
            cause = cause.__cause__
        if cause is not None:
            return FencedError(repr(cause))
        return first if isinstance(first, Exception) else error
