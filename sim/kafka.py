"""The cluster as the stand-ins see it: records out, Obol's outputs in, and how far Obol's group has read."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.helpers import create_ssl_context

from sim.records import Record
from sim.stage import Heard
from topics.catalogue import Timestamps, TopicSpec, with_namespace, without_namespace
from topics.partitioner import partition_of

LOCAL_BOOTSTRAP_SERVERS: Final = "127.0.0.1:9092"

_IN_FLIGHT: Final = 5_000
"""Records that are sent before their acknowledgements are waited for."""

_POLL_S: Final = 0.01


class NotPassedError(TimeoutError):
    """Obol's group did not read what it was given in time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """Where an installation of Obol is, as its environment says (contract, "Settings")."""

    bootstrap_servers: str = LOCAL_BOOTSTRAP_SERVERS
    namespace: str | None = None
    partitions: int = 8
    replication: int = 1
    timestamps: Timestamps = "broker"
    security: Mapping[str, Any] | None = None

    @classmethod
    def from_env(cls, environ: Mapping[str, str] = os.environ) -> "Installation":
        """Read the contract's variables; an empty one is unset. Raises ValueError for a count that is none."""

        def count(name: str, default: int) -> int:
            text = environ.get(name) or str(default)
            if not text.isascii() or not text.isdigit() or int(text) < 1:
                msg = f"{name} is {text!r}; set it to a whole number from 1 on"
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
        """Give a topic's full name."""
        return with_namespace(name, self.namespace)

    def kafka_client_options(self) -> dict[str, Any]:
        """Give keyword arguments for any of aiokafka's clients."""
        return {"bootstrap_servers": self.bootstrap_servers, **(self.security or {})}

    def place(self, record: Record) -> TopicPartition:
        """Say where a record belongs."""
        partition = record.partition
        if partition is None:
            partition = partition_of(record.key or "", self.partitions)
        return TopicPartition(self.topic(record.topic), partition)

    def places(self, spec: TopicSpec) -> list[TopicPartition]:
        """Every partition of a topic."""
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
    """Sends records, each to its org's partition with its own time; the order within a partition is kept."""

    def __init__(self, installation: Installation, producer: AIOKafkaProducer) -> None:
        self._installation = installation
        self._producer = producer
        self.sent = 0

    async def send(self, records: Iterable[Record]) -> dict[TopicPartition, int]:
        """Send all of `records` and wait until the broker has them; the last offset of each partition written."""
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
        # What is not flushed waits for a full batch or for its turn; nothing else is going to come.
        await self._producer.flush()
        for sent in await asyncio.gather(*waiting):
            last[sent.topic_partition] = sent.offset
            self.sent += 1
        waiting.clear()


class Listener:
    """Reads Obol's outputs, committed ones only, and knows how far Obol has read its inputs."""

    def __init__(
        self, installation: Installation, consumer: AIOKafkaConsumer, ends: AIOKafkaConsumer, admin: AIOKafkaAdminClient
    ) -> None:
        self._installation = installation
        self._consumer = consumer
        self._ends = ends
        self._admin = admin
        self.taken = 0

    async def passed(self, offsets: Mapping[TopicPartition, int], deadline_s: float) -> None:
        """Wait until Obol has committed that it read up to `offsets`, these included.

        Raises NotPassedError, naming what is left, when `deadline_s` seconds did not suffice.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + deadline_s
        left = dict(offsets)
        while left:
            committed = await self._admin.list_consumer_group_offsets(self._installation.group, partitions=list(left))
            left = {place: offset for place, offset in left.items() if _offset(committed, place) <= offset}
            if left and loop.time() >= end:
                place, offset = min(left.items())
                msg = (
                    f"{self._installation.group} has not read {place.topic}/{place.partition} up to offset {offset} "
                    f"in {deadline_s:g} s ({len(left)} partitions are behind); is a worker running?"
                )
                raise NotPassedError(msg)
            if left:
                await asyncio.sleep(_POLL_S)

    async def heard(self) -> list[Heard]:
        """Give all that is in the output topics by now and was not given before, in order of time."""
        places = list(self._consumer.assignment())
        # To the end as written, not as committed: markers of a commit that was acknowledged may still be on their way.
        ends = await self._ends.end_offsets(places)
        heard: list[Heard] = []
        while behind := [place for place in places if await self._consumer.position(place) < ends[place]]:
            for records in (await self._consumer.getmany(*behind, timeout_ms=50)).values():
                heard.extend(self._heard(record) for record in records)
        heard.sort(key=lambda record: record.timestamp_ms)
        return heard

    async def next(self, timeout_s: float) -> list[Heard]:
        """Give what comes within `timeout_s`, possibly nothing."""
        batches = await self._consumer.getmany(timeout_ms=int(timeout_s * 1_000))
        return sorted(
            (self._heard(record) for records in batches.values() for record in records),
            key=lambda record: record.timestamp_ms,
        )

    def _heard(self, record: Any) -> Heard:
        name = without_namespace(record.topic, self._installation.namespace)
        self.taken += 1
        key = None if record.key is None else record.key.decode()
        return Heard(name, record.timestamp, record.value or b"", key)


def _offset(committed: Mapping[TopicPartition, Any], place: TopicPartition) -> int:
    known = committed.get(place)
    return -1 if known is None else int(known.offset)


@asynccontextmanager
async def publisher(installation: Installation) -> AsyncIterator[Publisher]:
    """Connect a publisher; closed at the end."""
    producer = AIOKafkaProducer(
        **installation.kafka_client_options(), acks="all", enable_idempotence=True, compression_type="lz4", linger_ms=5
    )
    await producer.start()
    try:
        yield Publisher(installation, producer)
    finally:
        await producer.stop()


@asynccontextmanager
async def listener(installation: Installation, specs: Sequence[TopicSpec]) -> AsyncIterator[Listener]:
    """Connect a listener to all partitions of `specs`, from their beginning; closed at the end. They must be there."""
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
    """Both ways at once."""

    publisher: Publisher
    listener: Listener
    partitions: int


@asynccontextmanager
async def link(installation: Installation, specs: Sequence[TopicSpec]) -> AsyncIterator[Link]:
    """Connect a publisher, and a listener to `specs`; closed at the end."""
    async with publisher(installation) as sender, listener(installation, specs) as ear:
        yield Link(sender, ear, installation.partitions)
