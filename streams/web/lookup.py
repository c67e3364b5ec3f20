"""Records looked up in Kafka for explanations: bounded in time, `read_committed`, independent of the engine."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from aiokafka import AIOKafkaConsumer
from aiokafka.errors import KafkaError
from aiokafka.structs import TopicPartition

from schemas.base import Json
from streams.web.times import time_text
from topics.catalogue import CHANGES, CLOCK, USAGE, with_namespace

DEADLINE_S = 3.0
_POLL_MS = 250
_POLL_RECORDS = 5_000


class Found(NamedTuple):
    """A record in Kafka; `topic` without namespace."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    value: bytes

    def origin(self) -> Json:
        """Return where it is, as JSON."""
        return {
            "topic": self.topic,
            "partition": self.partition,
            "offset": self.offset,
            "timestamp": time_text(self.timestamp),
        }


class Lookup(Protocol):
    """Finds single records in the topics of one installation."""

    async def usage(self, partition: int, usage_id: str, not_before_ms: int) -> Found | None:
        """Return the usage event of that id; None where it is not found within the deadline."""

    async def tick(self, partition: int, at_ms: int) -> Found | None:
        """Return the tick with exactly this time."""

    async def changes(self, partition: int, entity: str, org_id: str, made: int, since_ms: int) -> list[Found]:
        """Return the `made` changes of an entity (`<kind>:<id>`), or those of them that were found in time."""


class NoLookup:
    """Finds nothing: for a site without a broker."""

    async def usage(self, partition: int, usage_id: str, not_before_ms: int) -> Found | None:  # noqa: ARG002 - the protocol's
        """Return nothing."""
        return None

    async def tick(self, partition: int, at_ms: int) -> Found | None:  # noqa: ARG002 - the protocol's
        """Return nothing."""
        return None

    async def changes(self, partition: int, entity: str, org_id: str, made: int, since_ms: int) -> list[Found]:  # noqa: ARG002 - the protocol's
        """Return nothing."""
        return []


class KafkaLookup:
    """Uses a consumer of its own, in no group, for each lookup: they are rare, as a person asks for each.

    `client_options` are the address and security that an `AIOKafkaConsumer` takes.
    """

    def __init__(
        self, client_options: Mapping[str, Any], namespace: str | None, deadline_s: float = DEADLINE_S
    ) -> None:
        self._options = dict(client_options)
        self._namespace = namespace
        self._deadline_s = deadline_s
        self._running = asyncio.Semaphore(4)

    async def usage(self, partition: int, usage_id: str, not_before_ms: int) -> Found | None:
        """Return the usage event; its time is that of its tick, which is not before the end of its interval."""
        start = b'{"id":"' + usage_id.encode() + b'"'
        found = await self._scan(USAGE.name, partition, not_before_ms, 1, lambda value, _: value.startswith(start))
        return found[0] if found else None

    async def tick(self, partition: int, at_ms: int) -> Found | None:
        """Return the tick. There is one record per partition and minute, so this reads few."""
        found = await self._scan(
            CLOCK.name, partition, at_ms, 1, lambda _, time: time == at_ms, stop=lambda time: time > at_ms
        )
        return found[0] if found else None

    async def changes(self, partition: int, entity: str, org_id: str, made: int, since_ms: int) -> list[Found]:
        """Return the changes. They are numbered from 1, so it is known when all are found."""
        start = b'{"event_id":"' + entity.encode() + b":"
        org = b'"org_id":"' + org_id.encode() + b'"'
        return await self._scan(
            CHANGES.name, partition, since_ms, made, lambda value, _: value.startswith(start) and org in value
        )

    async def _scan(
        self,
        topic: str,
        partition: int,
        since_ms: int,
        most: int,
        fits: Callable[[bytes, int], bool],
        stop: Callable[[int], bool] = lambda _: False,
    ) -> list[Found]:
        """Return up to `most` records that fit, from the first at or after `since_ms` to the current end offset."""
        found: list[Found] = []
        try:
            # The deadline includes the wait for other lookups, so that many at once don't delay one for minutes.
            async with asyncio.timeout(self._deadline_s), self._running:
                await self._scan_into(found, topic, partition, since_ms, most, fits, stop)
        except (TimeoutError, KafkaError):
            pass
        return found

    async def _scan_into(
        self,
        found: list[Found],
        topic: str,
        partition: int,
        since_ms: int,
        most: int,
        fits: Callable[[bytes, int], bool],
        stop: Callable[[int], bool],
    ) -> None:
        place = TopicPartition(with_namespace(topic, self._namespace), partition)
        consumer = AIOKafkaConsumer(
            **self._options, group_id=None, enable_auto_commit=False, isolation_level="read_committed"
        )
        try:
            await consumer.start()
            consumer.assign([place])
            first = (await consumer.offsets_for_times({place: since_ms}))[place]
            if first is None:
                return
            consumer.seek(place, first.offset)
            end = (await consumer.end_offsets([place]))[place]
            while await consumer.position(place) < end:
                for record in (await consumer.getmany(timeout_ms=_POLL_MS, max_records=_POLL_RECORDS)).get(place, ()):
                    if stop(record.timestamp):
                        return
                    if fits(record.value or b"", record.timestamp):
                        found.append(Found(topic, partition, record.offset, record.timestamp, record.value or b""))
                        if len(found) == most:
                            return
                await asyncio.sleep(0)
        finally:
            await consumer.stop()
