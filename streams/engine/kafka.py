"""Implements the Kafka ports with aiokafka, and the consumer port with Faust's consumer."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast

import faust
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import (
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    InvalidTransactionTimeout,
    KafkaTimeoutError,
    NoError,
    ProducerFenced,
    UnknownTopicOrPartitionError,
    for_code,
)
from aiokafka.protocol.metadata import MetadataRequest as OldMetadataRequest
from faust.types.tuples import TP

from streams.engine import ports
from streams.engine.fatal import Accident, AccidentError
from streams.engine.fetcher import BoundedFetcher
from streams.engine.merge import Damage, Record
from streams.engine.metadata import MetadataRequest, topic_id
from streams.engine.ports import (
    TRANSACTION_TIMEOUT_MS,
    Delivery,
    FencedError,
    IdForgottenError,
    ProduceBatch,
    TopicState,
)
from streams.engine.tasks import stop_client
from topics.provision import NewTopicSpec, check_configs

if TYPE_CHECKING:
    from aiokafka.producer.message_accumulator import BatchBuilder
    from aiokafka.producer.transaction_manager import TransactionManager

ClientT = TypeVar("ClientT", AIOKafkaConsumer, AIOKafkaProducer)

MAX_BATCH_BYTES: Final = 900_000
"""The size of a produce batch: below 1 MiB, the broker's default limit."""

READ_WAIT_MS: Final = 250
"""How long a reader waits when there is nothing to read."""

LAST_RECORDS: Final = 16
"""How many offsets before a partition's end are read first to find its last record; some may be markers."""

LAST_RECORDS_S: Final = 30.0
"""The timeout of reading the last records of partitions."""

_FENCED: Final = (ProducerFenced, InvalidProducerEpoch)
"""The broker's errors for a fenced producer."""


class AioKafka(ports.Kafka):
    """Creates aiokafka's clients. `options`: the arguments for all of them."""

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
        seeks = {TP(*partition): offset for partition, offset in positions.items()}
        await self._app.consumer.seek_wait(seeks)
        # Faust drops what is before the last offset that it has read.
        self._app.consumer._read_offset.update(seeks)  # noqa: SLF001 - its `seek` does so, but one at a time

    def pause(self, partition: ports.TopicPartition) -> None:
        self._app.consumer.on_buffer_full(TP(*partition))

    def resume(self, partition: ports.TopicPartition) -> None:
        self._app.consumer.on_buffer_drop(TP(*partition))


class _Client(Generic[ClientT]):
    """A client of aiokafka that is created when it is started, since it needs the running event loop."""

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
            await stop_client(client.stop())


class AioKafkaAdmin(_Client[AIOKafkaConsumer], ports.Admin):
    """Sends its requests with a consumer that reads nothing."""

    def __init__(self, options: Mapping[str, Any], client_id: str) -> None:
        # The end offset of a consumer with `read_committed` is the last stable offset.
        isolation: dict[str, Any] = {"isolation_level": "read_uncommitted", "enable_auto_commit": False}
        super().__init__(AIOKafkaConsumer, options, client_id=client_id, **isolation)
        self._plain = {**options, "client_id": client_id}
        self._reading = self._plain | {
            "isolation_level": "read_committed",
            "enable_auto_commit": False,
            "auto_offset_reset": "earliest",
            "fetch_max_wait_ms": READ_WAIT_MS,
        }

    async def beginning_offsets(self, partitions: Iterable[ports.TopicPartition]) -> dict[ports.TopicPartition, int]:
        return _plain(await self._client.beginning_offsets(self._known(partitions)))

    async def end_offsets(self, partitions: Iterable[ports.TopicPartition]) -> dict[ports.TopicPartition, int]:
        return _plain(await self._client.end_offsets(self._known(partitions)))

    async def stable_offsets(self, partitions: Iterable[ports.TopicPartition]) -> dict[ports.TopicPartition, int]:
        async with self._reader() as reader:
            return _plain(await reader.end_offsets([TopicPartition(*partition) for partition in partitions]))

    async def topics(self, names: Iterable[str]) -> dict[str, TopicState]:
        client, asked = self._client._client, list(names)  # noqa: SLF001 - the consumer itself can't ask
        node = client.get_random_node()
        found: list[tuple[str, int, str | None, int]]
        try:
            response = await client.send(node, MetadataRequest(asked))
            found = [(t[1], t[0], topic_id(t[2]), len(t[4])) for t in response.topics]
        except NotImplementedError:
            response = await client.send(node, OldMetadataRequest(asked, allow_auto_topic_creation=False))
            found = [(t[1], t[0], None, len(t[-1])) for t in response.topics]
        states = {}
        for name, code, id_, partitions in found:
            error = for_code(code)
            if error is NoError:
                states[name] = TopicState(id_, partitions)
            elif error is not UnknownTopicOrPartitionError:
                raise error(name)
        return states

    async def check_configs(self, topics: Sequence[NewTopicSpec]) -> None:
        async with self._admin() as admin:
            await check_configs(admin, topics)

    async def last_records(self, partitions: Iterable[ports.TopicPartition]) -> dict[ports.TopicPartition, Record]:
        try:
            async with self._reader() as reader, asyncio.timeout(LAST_RECORDS_S):
                return await _last_records(reader, [TopicPartition(*partition) for partition in partitions])
        except TimeoutError as error:
            raise KafkaTimeoutError from error

    async def committed_offsets(self, group: str) -> dict[ports.TopicPartition, int]:
        async with self._admin() as admin:
            found = await admin.list_consumer_group_offsets(group)
        return {(tp.topic, tp.partition): committed.offset for tp, committed in found.items() if committed.offset >= 0}

    @asynccontextmanager
    async def _admin(self) -> AsyncIterator[AIOKafkaAdminClient]:
        admin = AIOKafkaAdminClient(**self._plain)
        try:
            await admin.start()
            yield admin
        finally:
            await stop_client(admin.close())

    @asynccontextmanager
    async def _reader(self) -> AsyncIterator[AIOKafkaConsumer]:
        """Yield a consumer without a group that reads committed records."""
        reader = AIOKafkaConsumer(**self._reading)
        try:
            await reader.start()
            yield reader
        finally:
            await stop_client(reader.stop())

    def _known(self, partitions: Iterable[ports.TopicPartition]) -> list[TopicPartition]:
        asked = [TopicPartition(*partition) for partition in partitions]
        # Added together, unknown topics need one metadata request; otherwise each waits for a retry of its own.
        for topic in {partition.topic for partition in asked}:
            self._client._client.add_topic(topic)  # noqa: SLF001 - there is no public way
        return asked


def _plain(offsets: Mapping[TopicPartition, int]) -> dict[ports.TopicPartition, int]:
    return {(partition.topic, partition.partition): offset for partition, offset in offsets.items()}


async def _last_records(
    reader: AIOKafkaConsumer, partitions: list[TopicPartition]
) -> dict[ports.TopicPartition, Record]:
    """Read the last record of each partition, from further and further back while there are only markers."""
    reader.assign(partitions)
    beginnings = await reader.beginning_offsets(partitions)
    ends = await reader.end_offsets(partitions)
    found: dict[ports.TopicPartition, Record] = {}
    left = {tp for tp in partitions if beginnings[tp] < ends[tp]}
    back = LAST_RECORDS
    while left:
        starts = {tp: max(beginnings[tp], ends[tp] - back) for tp in left}
        reader.pause(*(tp for tp in partitions if tp not in left))
        for tp, start in starts.items():
            reader.seek(tp, start)
        unread = set(left)
        while unread:
            for tp, records in (await reader.getmany(*unread, timeout_ms=READ_WAIT_MS)).items():
                found[tp.topic, tp.partition] = records[-1]
            unread = {tp for tp in unread if await reader.position(tp) < ends[tp]}
        left = {tp for tp in left if (tp.topic, tp.partition) not in found and starts[tp] > beginnings[tp]}
        back *= LAST_RECORDS
    return found


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
        self.damage: Damage | None = None

    async def start(self) -> None:
        await super().start()
        self._fetcher.is_contiguous = lambda _: True
        self._client.assign([self._partition])
        await self._client.seek_to_beginning(self._partition)

    @property
    def _fetcher(self) -> BoundedFetcher:
        fetcher = self._client._fetcher  # noqa: SLF001 - it knows what can't be read
        assert isinstance(fetcher, BoundedFetcher)
        return fetcher

    async def last_stable_offset(self) -> int:
        ends: dict[TopicPartition, int] = await self._client.end_offsets([self._partition])
        return ends[self._partition]

    async def read(self) -> tuple[Sequence[Record], int]:
        found = await self._client.getmany(self._partition, timeout_ms=READ_WAIT_MS)
        self.damage = self._fetcher.take_changes().get(self._partition, self.damage)
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

    async def start(self) -> None:
        try:
            await super().start()
        except InvalidTransactionTimeout as error:
            msg = (
                "the brokers refuse transactions that may take as long as Obol's; "
                f"set their transaction.max.timeout.ms to {TRANSACTION_TIMEOUT_MS} or more"
            )
            raise AccidentError(Accident.WRONG_SETTING, msg) from error

    async def begin(self) -> None:
        await self._client.begin_transaction()

    def add_partitions(self, partitions: Iterable[ports.TopicPartition]) -> None:
        # By default each is added with its first batch, in a request of its own. While the coordinator writes, the
        # broker refuses batches for the others.
        for partition in partitions:
            self._transactions.maybe_add_partition_to_txn(TopicPartition(*partition))

    def create_batch(self) -> ProduceBatch:
        batch: ProduceBatch = self._client.create_batch()
        return batch

    async def send_batch(self, batch: ProduceBatch, partition: ports.TopicPartition) -> Awaitable[Delivery]:
        topic, number = partition
        while True:
            try:
                delivery: Awaitable[Delivery] = await self._client.send_batch(
                    cast("BatchBuilder", batch), topic, partition=number
                )
            except KafkaTimeoutError:
                # The batch before was not sent for `request_timeout_ms`: the cluster is unreachable. Wait for it.
                continue
            return delivery

    async def send_offsets(self, offsets: Mapping[ports.TopicPartition, int], group: str) -> None:
        by_partition = {TopicPartition(*partition): offset for partition, offset in offsets.items()}
        await self._client.send_offsets_to_transaction(by_partition, group)

    async def commit(self) -> None:
        await self._client.commit_transaction()

    def cause_of(self, error: Exception) -> Exception:
        # The producer finds out in the background why the transaction ended. The next call raises only that there is
        # no transaction.
        end = self._transactions.wait_for_transaction_end()
        ended = end.exception() if end is not None and end.done() and not end.cancelled() else None
        first: BaseException = ended or error
        cause: BaseException | None = first
        while cause is not None:
            if isinstance(cause, _FENCED):
                return FencedError(repr(cause))
            if isinstance(cause, InvalidProducerIdMapping):
                return IdForgottenError(repr(cause))
            cause = cause.__cause__
        return first if isinstance(first, Exception) else error
