"""Kafka clients of the stand-ins: they publish records, read Obol's outputs, and read the offsets of Obol's group."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import GroupCoordinatorNotAvailableError
from aiokafka.helpers import create_ssl_context

from sim.records import Record
from sim.stage import Output
from topics.catalogue import Timestamps, TopicSpec, with_namespace, without_namespace
from topics.partitioner import partition_of

LOCAL_BOOTSTRAP_SERVERS: Final = "127.0.0.1:9092"

_IN_FLIGHT: Final = 5_000
"""The number of records sent before waiting for their acknowledgements."""

_POLL_S: Final = 0.01


class NotCommittedError(TimeoutError):
    """Obol did not commit the given offsets in time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """The address and settings of an installation of Obol (contract, "Settings")."""

    bootstrap_servers: str = LOCAL_BOOTSTRAP_SERVERS
    namespace: str | None = None
    partitions: int = 8
    replication: int = 1
    timestamps: Timestamps = "broker"
    security: Mapping[str, Any] | None = None

    @classmethod
    def from_env(cls, environ: Mapping[str, str] = os.environ) -> "Installation":
        """Read the contract's variables; an empty one counts as unset. Raises `ValueError` for an invalid number."""

        def count(name: str, default: int) -> int:
            text = environ.get(name) or str(default)
            if not text.isascii() or not text.isdigit() or int(text) < 1:
                msg = f"{name} is {text!r}; set it to a whole number of 1 or more"
                raise ValueError(msg)
            return int(text)

        return cls(
            bootstrap_servers=environ.get("KAFKA_BOOTSTRAP_SERVERS") or LOCAL_BOOTSTRAP_SERVERS,
            namespace=environ.get("OBOL_NAMESPACE") or None,
            partitions=count("OBOL_PARTITIONS", 8),
            replication=count("OBOL_REPLICATION", 1),
            timestamps="producer" if environ.get("OBOL_TIMESTAMPS") == "producer" else "broker",
            security=_security(environ),
        )

    @property
    def group(self) -> str:
        """Obol's consumer group."""
        return self.topic("obol")

    def topic(self, name: str) -> str:
        """Return a topic's name with the namespace."""
        return with_namespace(name, self.namespace)

    def kafka_client_options(self) -> dict[str, Any]:
        """Return keyword arguments for aiokafka's clients."""
        return {"bootstrap_servers": self.bootstrap_servers, **(self.security or {})}

    def place(self, record: Record) -> TopicPartition:
        """Return the partition to which a record is sent."""
        partition = record.partition
        if partition is None:
            partition = partition_of(record.key or "", self.partitions)
        return TopicPartition(self.topic(record.topic), partition)

    def places(self, spec: TopicSpec) -> list[TopicPartition]:
        """Return all partitions of a topic."""
        return [TopicPartition(self.topic(spec.name), n) for n in range(spec.partitions(self.partitions))]


def _security(environ: Mapping[str, str]) -> dict[str, Any] | None:
    protocol = environ.get("KAFKA_SECURITY_PROTOCOL") or "PLAINTEXT"
    if protocol == "PLAINTEXT":
        return None
    options: dict[str, Any] = {"security_protocol": protocol}
    if protocol.endswith("SSL"):
        options["ssl_context"] = create_ssl_context(
            cafile=environ.get("KAFKA_SSL_CAFILE") or None,
            certfile=environ.get("KAFKA_SSL_CERTFILE") or None,
            keyfile=environ.get("KAFKA_SSL_KEYFILE") or None,
            password=environ.get("KAFKA_SSL_PASSWORD") or None,
        )
    if protocol.startswith("SASL_"):
        options["sasl_mechanism"] = environ.get("KAFKA_SASL_MECHANISM") or "PLAIN"
        options["sasl_plain_username"] = environ.get("KAFKA_SASL_USERNAME")
        options["sasl_plain_password"] = environ.get("KAFKA_SASL_PASSWORD")
    return options


class Publisher:
    """Sends records to their partitions with their own timestamps, in order."""

    def __init__(self, installation: Installation, producer: AIOKafkaProducer) -> None:
        self._installation = installation
        self._producer = producer
        self.sent = 0

    async def send(self, records: Iterable[Record]) -> dict[TopicPartition, int]:
        """Send `records` and wait for the acknowledgements. Returns the last offset written to each partition."""
        last: dict[TopicPartition, int] = {}
        waiting: list[asyncio.Future[Any]] = []
        for record in records:
            place = self._installation.place(record)
            waiting.append(
                await self._producer.send(
                    place.topic,
                    record.value,
                    key=None if record.key is None else record.key.encode(),
                    partition=place.partition,
                    timestamp_ms=record.timestamp_ms,
                )
            )
            if len(waiting) >= _IN_FLIGHT:
                await self._settle(waiting, last)
        await self._settle(waiting, last)
        return last

    async def _settle(self, waiting: list[asyncio.Future[Any]], last: dict[TopicPartition, int]) -> None:
        # Without a flush, the last batches would wait for the linger time.
        await self._producer.flush()
        for sent in await asyncio.gather(*waiting):
            last[sent.topic_partition] = sent.offset
            self.sent += 1
        waiting.clear()


class Listener:
    """Reads Obol's committed outputs, and the offsets that Obol has committed."""

    def __init__(
        self, installation: Installation, consumer: AIOKafkaConsumer, ends: AIOKafkaConsumer, admin: AIOKafkaAdminClient
    ) -> None:
        self._installation = installation
        self._consumer = consumer
        self._ends = ends
        self._admin = admin
        self.received = 0

    async def wait_until_committed(self, offsets: Mapping[TopicPartition, int], deadline_s: float) -> None:
        """Wait until Obol has committed the records at `offsets`.

        Raises `NotCommittedError` after `deadline_s` seconds, with the partitions that are behind.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + deadline_s
        behind = dict(offsets)
        while behind:
            try:
                committed = await self._admin.list_consumer_group_offsets(
                    self._installation.group, partitions=list(behind)
                )
            except GroupCoordinatorNotAvailableError:  # while a new broker creates its offsets topic
                committed = {}
            behind = {tp: offset for tp, offset in behind.items() if _offset(committed, tp) <= offset}
            if behind and loop.time() >= end:
                tp, offset = min(behind.items())
                msg = (
                    f"{self._installation.group} has not committed {tp.topic}[{tp.partition}] up to offset {offset} "
                    f"within {deadline_s:g} s ({len(behind)} partitions are behind); is a worker running?"
                )
                raise NotCommittedError(msg)
            if behind:
                await asyncio.sleep(_POLL_S)

    async def read_to_end(self) -> list[Output]:
        """Return all records of the output topics that were not returned before, in order of time."""
        assigned = list(self._consumer.assignment())
        # Up to the high watermark: the markers of an acknowledged commit may not be written yet.
        ends = await self._ends.end_offsets(assigned)
        outputs: list[Output] = []
        while behind := [tp for tp in assigned if await self._consumer.position(tp) < ends[tp]]:
            for records in (await self._consumer.getmany(*behind, timeout_ms=50)).values():
                outputs.extend(self._output(record) for record in records)
        outputs.sort(key=lambda record: record.timestamp_ms)
        return outputs

    async def poll(self, timeout_s: float) -> list[Output]:
        """Return the records that arrive within `timeout_s`."""
        batches = await self._consumer.getmany(timeout_ms=int(timeout_s * 1_000))
        return sorted(
            (self._output(record) for records in batches.values() for record in records),
            key=lambda record: record.timestamp_ms,
        )

    def _output(self, record: Any) -> Output:
        name = without_namespace(record.topic, self._installation.namespace)
        self.received += 1
        key = None if record.key is None else record.key.decode()
        return Output(name, record.timestamp, record.value or b"", key)


def _offset(committed: Mapping[TopicPartition, Any], tp: TopicPartition) -> int:
    metadata = committed.get(tp)
    return -1 if metadata is None else int(metadata.offset)


@asynccontextmanager
async def publisher(installation: Installation) -> AsyncIterator[Publisher]:
    """Yield a connected publisher."""
    producer = AIOKafkaProducer(
        **installation.kafka_client_options(), acks="all", enable_idempotence=True, compression_type="lz4", linger_ms=5
    )
    try:
        await producer.start()
        yield Publisher(installation, producer)
    finally:
        await producer.stop()


@asynccontextmanager
async def listener(installation: Installation, specs: Sequence[TopicSpec]) -> AsyncIterator[Listener]:
    """Yield a listener to all partitions of existing topics, from their beginning."""
    options = installation.kafka_client_options()
    consumer = AIOKafkaConsumer(
        **options, isolation_level="read_committed", auto_offset_reset="earliest", enable_auto_commit=False
    )
    ends = AIOKafkaConsumer(**options, isolation_level="read_uncommitted", enable_auto_commit=False)
    admin = AIOKafkaAdminClient(**options)
    async with AsyncExitStack() as stack:
        for client in (consumer, ends):
            await client.start()
            stack.push_async_callback(client.stop)
        await admin.start()
        stack.push_async_callback(admin.close)
        places = [place for spec in specs for place in installation.places(spec)]
        consumer.assign(places)
        await consumer.seek_to_beginning(*places)
        yield Listener(installation, consumer, ends, admin)


@dataclass(frozen=True, slots=True)
class Link:
    """A publisher and a listener."""

    publisher: Publisher
    listener: Listener
    partitions: int


@asynccontextmanager
async def link(installation: Installation, specs: Sequence[TopicSpec]) -> AsyncIterator[Link]:
    """Yield a publisher, and a listener to `specs`."""
    async with publisher(installation) as sender, listener(installation, specs) as receiver:
        yield Link(sender, receiver, installation.partitions)
