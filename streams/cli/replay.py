"""Read dead letters, find those that were replayed before, and replay the others."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from aiokafka import AIOKafkaProducer, TopicPartition

from streams.cli.cluster import Draft, assign, consumer, partition_counts, produce, producer, records, require_topic
from streams.cli.context import progress
from streams.cli.dead_letters import REPLAYED, DeadLetterRecord, parse_dead_letter
from streams.cli.failure import Failure
from streams.settings import Settings
from topics.catalogue import DEAD_LETTERS, TOPICS

_BATCH: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """A selection of dead letters; None matches all. `topic`, `partition`, `offset`: of the original record."""

    reason: str | None = None
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    org_id: str | None = None
    since_ms: int | None = None

    @property
    def is_empty(self) -> bool:
        """Whether it matches everything."""
        return self == Filter()

    def matches(self, letter: DeadLetterRecord) -> bool:
        """Whether `letter` matches all fields but `since_ms`, which determines where the read starts."""
        content = letter.content
        return (
            self.reason in (None, content.reason)
            and self.topic in (None, content.topic)
            and self.partition in (None, content.partition)
            and self.offset in (None, content.offset)
            and (self.org_id is None or self.org_id == letter.org_id)
        )


@dataclass(slots=True)
class ReplayPlan:
    """Dead letters that can be replayed, were truncated, or were replayed before."""

    ready: list[DeadLetterRecord]
    truncated: list[DeadLetterRecord]
    replayed: list[DeadLetterRecord]


async def read_dead_letters(settings: Settings, selection: Filter) -> list[DeadLetterRecord]:
    """Return the dead letters that match, in order of partition and offset."""
    counts = await partition_counts(settings)
    partitions = [
        TopicPartition(settings.topic(DEAD_LETTERS.name), partition)
        for partition in range(require_topic(counts, DEAD_LETTERS, settings))
    ]
    found: list[DeadLetterRecord] = []

    def keep(record: Any) -> None:
        letter = parse_dead_letter(record)
        if letter is not None and selection.matches(letter):
            found.append(letter)

    async with consumer(settings) as client:
        span = await assign(client, partitions, since_ms=selection.since_ms, last=None)
        await _read(client, span, "reading dead letters", keep)
    return sorted(found, key=lambda letter: (letter.partition, letter.offset))


async def plan_replay(settings: Settings, dead_letters: Sequence[DeadLetterRecord], *, again: bool) -> ReplayPlan:
    """Divide dead letters into those that can be replayed, were truncated, or were replayed before (unless `again`).

    A replayed record has its dead letter's partition and offset in a header, so the records of the original topic
    after the original record show which dead letters were replayed.
    """
    whole = [letter for letter in dead_letters if not letter.content.truncated]
    headers = set() if again else await _replay_headers(settings, whole)
    return ReplayPlan(
        ready=[letter for letter in whole if letter.replay_header not in headers],
        truncated=[letter for letter in dead_letters if letter.content.truncated],
        replayed=[letter for letter in whole if letter.replay_header in headers],
    )


async def _replay_headers(settings: Settings, dead_letters: Sequence[DeadLetterRecord]) -> set[bytes]:
    firsts: dict[TopicPartition, int] = {}
    for letter in dead_letters:
        tp = TopicPartition(settings.topic(letter.content.topic), letter.content.partition)
        firsts[tp] = min(firsts.get(tp, letter.content.offset), letter.content.offset)
    if not firsts:
        return set()
    headers: set[bytes] = set()

    def keep(record: Any) -> None:
        headers.update(value for name, value in record.headers if name == REPLAYED)

    async with consumer(settings) as client:
        span = await assign(client, list(firsts), since_ms=None, last=None)
        for tp, first in firsts.items():
            span.start[tp] = max(span.start[tp], first + 1)
            client.seek(tp, span.start[tp])
        await _read(client, span, "looking for earlier replays", keep)
    return headers


async def _read(client: Any, span: Any, doing: str, keep: Callable[[Any], None]) -> None:
    total = sum(span.end[tp] - start for tp, start in span.start.items())
    with progress(counted=True) as bar:
        task = bar.add_task(doing, total=total)
        async for batch in records(client, span, follow=False):
            for record in batch:
                keep(record)
            bar.advance(task, len(batch))


async def replay(settings: Settings, selection: Filter, *, again: bool) -> ReplayPlan:
    """Replay the dead letters that can be replayed, in one transaction. Returns the plan that was carried out.

    The producer is started before the plan is made: its transactional id fences another replay, so that the plan
    includes everything the other one committed.
    """
    async with producer(settings, f"{settings.app_id}-dead-replay") as client:
        plan = await plan_replay(settings, await read_dead_letters(settings, selection), again=again)
        if plan.ready:
            await _check_partitions(settings, plan.ready)
            async with client.transaction():
                await _send(client, settings, plan.ready)
    return plan


async def _send(client: AIOKafkaProducer, settings: Settings, dead_letters: Sequence[DeadLetterRecord]) -> None:
    with progress(counted=True) as bar:
        task = bar.add_task("replaying", total=len(dead_letters))
        for start in range(0, len(dead_letters), _BATCH):
            batch = dead_letters[start : start + _BATCH]
            for future in [await produce(client, draft(letter, settings), settings) for letter in batch]:
                await future
            bar.advance(task, len(batch))


def draft(letter: DeadLetterRecord, settings: Settings) -> Draft:
    """Return the record to send. It keeps its timestamp where `OBOL_TIMESTAMPS` is `producer`."""
    return Draft(
        name=letter.origin,
        topic=letter.content.topic,
        partition=letter.content.partition,
        key=letter.key,
        value=letter.value,
        timestamp_ms=letter.content.timestamp if settings.timestamps == "producer" else None,
        headers=((REPLAYED, letter.replay_header),),
    )


async def _check_partitions(settings: Settings, dead_letters: Sequence[DeadLetterRecord]) -> None:
    counts = await partition_counts(settings)
    by_topic: dict[str, int] = defaultdict(int)
    for letter in dead_letters:
        by_topic[letter.content.topic] = max(by_topic[letter.content.topic], letter.content.partition)
    for topic, partition in by_topic.items():
        if topic not in TOPICS:
            raise Failure(
                f"a dead letter is from topic {topic!r}, which is not an Obol topic; select others by --topic"
            )
        if partition >= require_topic(counts, TOPICS[topic], settings):
            msg = f"topic {settings.topic(topic)} no longer has a partition {partition}; select others by --partition"
            raise Failure(msg)
