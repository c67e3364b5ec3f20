"""Reading dead letters, finding those that were sent again before, and sending more of them again."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from aiokafka import AIOKafkaProducer, TopicPartition

from streams.cli.cluster import Draft, assign, consumer, partition_counts, producer, put, records, require
from streams.cli.context import progress
from streams.cli.failure import Failure
from streams.cli.letters import REPLAYED, Letter, read_letter
from streams.settings import Settings
from topics.catalogue import DEAD_LETTERS, TOPICS

_BATCH: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Which dead letters are meant; None: any. `topic`, `partition`, `offset` are the origin's."""

    reason: str | None = None
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    org_id: str | None = None
    since_ms: int | None = None

    @property
    def is_empty(self) -> bool:
        """Whether it lets everything through."""
        return self == Filter()

    def holds(self, letter: Letter) -> bool:
        """Whether `letter` is meant; `since_ms` is seen to by where the reading starts."""
        content = letter.content
        return (
            self.reason in (None, content.reason)
            and self.topic in (None, content.topic)
            and self.partition in (None, content.partition)
            and self.offset in (None, content.offset)
            and (self.org_id is None or self.org_id == letter.org_id)
        )


@dataclass(slots=True)
class Fates:
    """Dead letters by what may be done with them."""

    ready: list[Letter]
    cut: list[Letter]
    done: list[Letter]


async def read_letters(settings: Settings, wanted: Filter) -> list[Letter]:
    """Every dead letter that is meant, oldest first within each partition."""
    counts = await partition_counts(settings)
    places = [
        TopicPartition(settings.topic(DEAD_LETTERS.name), partition)
        for partition in range(require(counts, DEAD_LETTERS, settings))
    ]
    found: list[Letter] = []

    def keep(record: Any) -> None:
        letter = read_letter(record)
        if letter is not None and wanted.holds(letter):
            found.append(letter)

    async with consumer(settings) as client:
        reach = await assign(client, places, since_ms=wanted.since_ms, last=None)
        await _read(client, reach, "reading dead letters", keep)
    return sorted(found, key=lambda letter: (letter.partition, letter.offset))


async def judge(settings: Settings, letters: Sequence[Letter], *, again: bool) -> Fates:
    """Tell apart what can be sent, what was cut, and what was sent before (unless `again`).

    Each record that was sent again carries its dead letter's place, so the origin's own topic tells; it is read from
    the dead record on.
    """
    cut = [letter for letter in letters if letter.content.truncated]
    whole = [letter for letter in letters if not letter.content.truncated]
    marks = set() if again else await _replayed(settings, whole)
    done = [letter for letter in whole if letter.mark in marks]
    return Fates([letter for letter in whole if letter.mark not in marks], cut, done)


async def _replayed(settings: Settings, letters: Sequence[Letter]) -> set[bytes]:
    firsts: dict[TopicPartition, int] = {}
    for letter in letters:
        place = TopicPartition(settings.topic(letter.content.topic), letter.content.partition)
        firsts[place] = min(firsts.get(place, letter.content.offset), letter.content.offset)
    if not firsts:
        return set()
    marks: set[bytes] = set()

    def keep(record: Any) -> None:
        marks.update(value for name, value in record.headers if name == REPLAYED)

    async with consumer(settings) as client:
        reach = await assign(client, list(firsts), since_ms=None, last=None)
        for place, first in firsts.items():
            reach.start[place] = max(reach.start[place], first + 1)
            client.seek(place, reach.start[place])
        await _read(client, reach, "looking for earlier replays", keep)
    return marks


async def _read(client: Any, reach: Any, doing: str, keep: Callable[[Any], None]) -> None:
    total = sum(reach.end[place] - start for place, start in reach.start.items())
    with progress(counted=True) as bar:
        task = bar.add_task(doing, total=total)
        async for batch in records(client, reach, follow=False):
            for record in batch:
                keep(record)
            bar.advance(task, len(batch))


async def replay(settings: Settings, wanted: Filter, *, again: bool) -> Fates:
    """Send what can be sent, in one transaction: all of it or nothing. Returns what was done with each dead letter.

    The producer's id keeps two replays from running at once: the later one ends the earlier one's transaction, and
    looks for what was sent before only then.
    """
    async with producer(settings, f"{settings.app_id}-dead-replay") as client:
        fates = await judge(settings, await read_letters(settings, wanted), again=again)
        if fates.ready:
            await _check_places(settings, fates.ready)
            async with client.transaction():
                await _send(client, settings, fates.ready)
    return fates


async def _send(client: AIOKafkaProducer, settings: Settings, letters: Sequence[Letter]) -> None:
    with progress(counted=True) as bar:
        task = bar.add_task("sending again", total=len(letters))
        for start in range(0, len(letters), _BATCH):
            batch = letters[start : start + _BATCH]
            for future in [await put(client, draft(letter, settings), settings) for letter in batch]:
                await future
            bar.advance(task, len(batch))


def draft(letter: Letter, settings: Settings) -> Draft:
    """The original record, with its time where producers' times count, and a mark of where it comes from."""
    return Draft(
        name=letter.origin,
        topic=letter.content.topic,
        partition=letter.content.partition,
        key=letter.key,
        value=letter.value,
        timestamp_ms=letter.content.timestamp if settings.timestamps == "producer" else None,
        headers=((REPLAYED, letter.mark),),
    )


async def _check_places(settings: Settings, letters: Sequence[Letter]) -> None:
    counts = await partition_counts(settings)
    by_topic: dict[str, int] = defaultdict(int)
    for letter in letters:
        by_topic[letter.content.topic] = max(by_topic[letter.content.topic], letter.content.partition)
    for topic, partition in by_topic.items():
        if topic not in TOPICS:
            raise Failure(f"a dead letter names the topic {topic!r}, not in the contract; choose others by --topic")
        if partition >= require(counts, TOPICS[topic], settings):
            msg = f"topic {settings.topic(topic)} has no partition {partition} any more; choose others by --partition"
            raise Failure(msg)
