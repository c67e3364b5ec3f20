"""Access to the cluster: partition counts, a producer, and a consumer that reads a range of offsets."""

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient

from streams.cli.failure import Failure
from streams.settings import Settings
from topics.catalogue import TOPICS, TopicSpec, without_namespace

CLIENT_ID: Final = "obol-cli"
POLL_MS: Final = 500

# A record and the marker that commits it take two offsets, so the last n records are within the last 2n offsets.
_OFFSETS_PER_RECORD: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A record to send. `topic`: without the namespace; `timestamp_ms`: None for now; `name`: what messages call it."""

    name: str
    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int | None = None
    headers: Sequence[tuple[str, bytes]] = ()


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """The start offsets of a read, and the end offsets at the time of the seek."""

    start: dict[TopicPartition, int]
    end: dict[TopicPartition, int]


async def partition_counts(settings: Settings) -> dict[str, int]:
    """Return the partition count of each existing topic of this installation, by name without the namespace.

    Describes all topics: a request for one by name could make the broker create it with its own defaults.
    """
    admin = AIOKafkaAdminClient(client_id=CLIENT_ID, **settings.kafka_client_options())
    try:
        await admin.start()
        found = await admin.describe_topics()
    finally:
        await admin.close()
    names = {settings.topic(name): name for name in TOPICS}
    return {names[topic["topic"]]: len(topic["partitions"]) for topic in found if topic["topic"] in names}


def require_topic(counts: dict[str, int], spec: TopicSpec, settings: Settings) -> int:
    """Return the partition count of a topic. Raises `Failure` when it does not exist."""
    if spec.name not in counts:
        msg = f"topic {settings.topic(spec.name)} does not exist: run `obol topics create`, or correct OBOL_NAMESPACE"
        raise Failure(msg)
    return counts[spec.name]


@asynccontextmanager
async def producer(settings: Settings, transactional_id: str | None = None) -> AsyncIterator[AIOKafkaProducer]:
    """Yield an idempotent producer, or a transactional one."""
    options: dict[str, Any] = {} if transactional_id is None else {"transactional_id": transactional_id}
    client = AIOKafkaProducer(
        client_id=CLIENT_ID, acks="all", enable_idempotence=True, **options, **settings.kafka_client_options()
    )
    try:
        await client.start()
        yield client
    finally:
        await client.stop()


async def produce(client: AIOKafkaProducer, draft: Draft, settings: Settings) -> asyncio.Future[Any]:
    """Queue a record for sending; the future returns its metadata."""
    future: asyncio.Future[Any] = await client.send(
        settings.topic(draft.topic),
        draft.value,
        key=draft.key,
        partition=draft.partition,
        timestamp_ms=draft.timestamp_ms,
        headers=list(draft.headers),
    )
    return future


@asynccontextmanager
async def consumer(settings: Settings) -> AsyncIterator[AIOKafkaConsumer]:
    """Yield a consumer of committed records that belongs to no group."""
    client = AIOKafkaConsumer(
        client_id=CLIENT_ID,
        group_id=None,
        enable_auto_commit=False,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        **settings.kafka_client_options(),
    )
    try:
        await client.start()
        yield client
    finally:
        await client.stop()


async def assign(
    client: AIOKafkaConsumer, partitions: Collection[TopicPartition], *, since_ms: int | None, last: int | None
) -> OffsetRange:
    """Assign `partitions` and seek: to `since_ms`, to before the `last` records, or to the beginning."""
    client.assign(list(partitions))
    beginnings = await client.beginning_offsets(partitions)
    ends = await client.end_offsets(partitions)
    start = dict(beginnings)
    if since_ms is not None:
        found = await client.offsets_for_times(dict.fromkeys(partitions, since_ms))
        start = {tp: ends[tp] if position is None else position.offset for tp, position in found.items()}
    elif last is not None:
        start = {tp: max(beginnings[tp], ends[tp] - _OFFSETS_PER_RECORD * last) for tp in partitions}
    for tp, offset in start.items():
        client.seek(tp, offset)
    return OffsetRange(start, dict(ends))


async def records(client: AIOKafkaConsumer, span: OffsetRange, *, follow: bool) -> AsyncIterator[list[Any]]:
    """Yield batches of records, each batch sorted by timestamp.

    Without `follow`, stops at the end offsets of `span` and yields no later record.
    """
    unfinished = {tp for tp, end in span.end.items() if span.start[tp] < end}
    while follow or unfinished:
        fetched = await client.getmany(timeout_ms=POLL_MS)
        batch = [record for tp, found in fetched.items() for record in found if follow or record.offset < span.end[tp]]
        yield sorted(batch, key=lambda record: record.timestamp)
        for tp in list(unfinished):
            # Commit markers take offsets too: only the consumer's position shows that the end is reached.
            if await client.position(tp) >= span.end[tp]:
                unfinished.discard(tp)
                if not follow:
                    client.pause(tp)


def name_of(record: Any, settings: Settings) -> str:
    """Return the topic of a record without the namespace."""
    return without_namespace(record.topic, settings.namespace)
