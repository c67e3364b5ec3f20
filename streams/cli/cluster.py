"""The cluster from a person's side: which topics are there, sending a few records, and reading a range."""

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

# A record and the marker that commits it are two offsets; of the last n records at most 2n offsets tell.
_OFFSETS_PER_RECORD: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A record to be sent; `topic` without namespace, `timestamp_ms` None for now, `name` what people call it."""

    name: str
    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int | None = None
    headers: Sequence[tuple[str, bytes]] = ()


@dataclass(frozen=True, slots=True)
class Range:
    """Where to read: from offsets, up to the ends as they were at the start, or for ever."""

    start: dict[TopicPartition, int]
    end: dict[TopicPartition, int]


async def partition_counts(settings: Settings) -> dict[str, int]:
    """The partition count of each topic of this installation that is there, by name without namespace.

    All topics are listed: asking for one by name could make the broker create it, its own way.
    """
    admin = AIOKafkaAdminClient(client_id=CLIENT_ID, **settings.kafka_client_options())
    try:
        await admin.start()
        found = await admin.describe_topics()
    finally:
        await admin.close()
    names = {settings.topic(name): name for name in TOPICS}
    return {names[topic["topic"]]: len(topic["partitions"]) for topic in found if topic["topic"] in names}


def require(counts: dict[str, int], spec: TopicSpec, settings: Settings) -> int:
    """The partition count of a topic that has to be there. Raises `Failure`."""
    if spec.name not in counts:
        msg = f"topic {settings.topic(spec.name)} is not there: run `obol topics create`, or correct OBOL_NAMESPACE"
        raise Failure(msg)
    return counts[spec.name]


@asynccontextmanager
async def producer(settings: Settings, transactional_id: str | None = None) -> AsyncIterator[AIOKafkaProducer]:
    """A producer that has each record once, and in order."""
    options: dict[str, Any] = {} if transactional_id is None else {"transactional_id": transactional_id}
    client = AIOKafkaProducer(
        client_id=CLIENT_ID, acks="all", enable_idempotence=True, **options, **settings.kafka_client_options()
    )
    try:
        await client.start()
        yield client
    finally:
        await client.stop()


async def put(client: AIOKafkaProducer, draft: Draft, settings: Settings) -> asyncio.Future[Any]:
    """Hand a record to the producer; the future gives where it came to stand."""
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
    """A consumer without a group: it sees what is committed, and leaves no trace."""
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
) -> Range:
    """Assign `partitions` and seek: to `since_ms`, or so that the `last` records are read, or to the beginning."""
    client.assign(list(partitions))
    beginnings = await client.beginning_offsets(partitions)
    ends = await client.end_offsets(partitions)
    start = dict(beginnings)
    if since_ms is not None:
        found = await client.offsets_for_times(dict.fromkeys(partitions, since_ms))
        start = {at: ends[at] if place is None else place.offset for at, place in found.items()}
    elif last is not None:
        start = {at: max(beginnings[at], ends[at] - _OFFSETS_PER_RECORD * last) for at in partitions}
    for at, offset in start.items():
        client.seek(at, offset)
    return Range(start, dict(ends))


async def records(client: AIOKafkaConsumer, reach: Range, *, follow: bool) -> AsyncIterator[list[Any]]:
    """Batches of records, in order within each partition, by time across those of a batch.

    Without `follow`, up to the ends of `reach`: its last batches hold nothing that came later.
    """
    left = {at for at, end in reach.end.items() if reach.start[at] < end}
    while follow or left:
        fetched = await client.getmany(timeout_ms=POLL_MS)
        batch = [record for at, found in fetched.items() for record in found if follow or record.offset < reach.end[at]]
        yield sorted(batch, key=lambda record: record.timestamp)
        for at in list(left):
            # Markers of transactions take offsets too, so the consumer's position tells, not a record's.
            if await client.position(at) >= reach.end[at]:
                left.discard(at)
                if not follow:
                    client.pause(at)


def name_of(record: Any, settings: Settings) -> str:
    """A record's topic without namespace."""
    return without_namespace(record.topic, settings.namespace)
