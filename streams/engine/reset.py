"""Accepts an input that was reset: writes a new position of each partition."""

from dataclasses import dataclass
from typing import Literal

from streams.engine import position as positions
from streams.engine.changelogs import Changelogs, ends_after
from streams.engine.clock import SystemClock
from streams.engine.cluster import check_installation, installation
from streams.engine.commit import Committer
from streams.engine.fatal import AccidentError
from streams.engine.kafka import AioKafka
from streams.engine.ports import Admin, TopicPartition
from streams.engine.position import Position, decode_position, encode_position
from streams.engine.shard import Commit
from streams.engine.table import TABLES
from streams.settings import Settings
from topics.catalogue import PRICES

Start = Literal["beginning", "end"]


class ResetError(RuntimeError):
    """A reset can't be accepted. The message is one line with the fix."""


@dataclass(frozen=True, slots=True)
class Reset:
    """A partition's accepted reset: the offset up to which the input was applied, and that from which it is read."""

    partition: int
    applied: int
    start: int


async def accept_reset(settings: Settings, topic: str, start: str | None = None) -> list[Reset]:
    """Set the position of every partition to the beginning or the end of `topic`; return the resets.

    `topic` is without namespace. `start`: "beginning", "end", or None to choose. Each position is written in a
    transaction with the partition's transactional id, which fences a worker that owns the partition. After a failure,
    run it again: it does the rest. Raises `ResetError` and `KafkaError`.
    """
    kafka, changelogs = AioKafka(settings.kafka_client_options()), Changelogs(settings.app_id, TABLES)
    admin = kafka.admin(f"{settings.app_id}-reset")
    try:
        await admin.start()
        name = settings.topic(topic)
        state = (await admin.topics([name])).get(name)
        if state is None:
            msg = f"topic {name} does not exist: create it, for example with `obol topics create`"
            raise ResetError(msg)
        wanted = 1 if topic == PRICES.name else settings.partitions
        if state.partitions != wanted:
            msg = f"topic {name} has {state.partitions} partitions, but the rows are kept under {wanted}: make it again"
            raise ResetError(msg)
        resets = []
        for partition in range(settings.partitions):
            committer = Committer(
                partition,
                kafka=kafka,
                clock=SystemClock(),
                app_id=settings.app_id,
                topic=settings.topic,
                changelog=changelogs.name,
            )
            # From here on, no worker writes to the partition.
            await committer.fence()
            try:
                reset = await _reset(settings, admin, changelogs, committer, topic, state.id, start)
            finally:
                await committer.stop()
            if reset is not None:
                resets.append(reset)
        return resets
    finally:
        await admin.stop()


async def _reset(
    settings: Settings,
    admin: Admin,
    changelogs: Changelogs,
    committer: Committer,
    topic: str,
    topic_id: str | None,
    start: str | None,
) -> Reset | None:
    partition, source = committer.partition, (settings.topic(topic), 0 if topic == PRICES.name else committer.partition)
    changelog = (changelogs.name(positions.TABLE), partition)
    last = (await admin.last_records([changelog])).get(changelog)
    if last is None or last.value is None:
        return None
    try:
        position = decode_position(last.value)
        check_installation(partition, position.installation, installation(settings))
    except AccidentError as error:
        raise ResetError(str(error)) from error
    end = (await admin.end_offsets([source]))[source]
    applied = position.prices if topic == PRICES.name else position.offsets.get(topic, 0)
    known = position.topics.get(topic)
    is_new = None if known is None or topic_id is None else known != topic_id
    if not is_new and end >= applied and start is None:
        return None
    if start is None:
        if is_new is None:
            msg = "the broker gives no topic ids: say with --from whether the topic was made again or lost its end"
            raise ResetError(msg)
        start = "beginning" if is_new else "end"
    begin = (await admin.beginning_offsets([source]))[source] if start == "beginning" else end
    _set_offset(position, topic, topic_id, begin)
    ends = await admin.end_offsets(changelogs.of([partition]))
    await committer.commit(_commit(partition, position, topic, begin, _by_table(ends, changelogs)))
    return Reset(partition, applied, begin)


def _by_table(ends: dict[TopicPartition, int], changelogs: Changelogs) -> dict[str, int]:
    return {changelogs.table(name): end for (name, _), end in ends.items()}


def _set_offset(position: Position, topic: str, topic_id: str | None, begin: int) -> None:
    """Set the next offset of `topic` in a position to `begin`, and count the reset."""
    position.add("resets", topic)
    if topic_id is not None:
        position.topics[topic] = topic_id
    if topic == PRICES.name:
        position.prices = begin
    else:
        position.offsets[topic] = begin


def _commit(partition: int, position: Position, topic: str, begin: int, ends: dict[str, int]) -> Commit:
    rows: dict[str, list[tuple[bytes, bytes | None]]] = {positions.TABLE: [(positions.KEY, b"")]}
    position.changelogs = ends_after(ends, rows)
    rows[positions.TABLE] = [(positions.KEY, encode_position(position))]
    offsets = {} if topic == PRICES.name else {topic: begin}
    return Commit(partition, rows=rows, offsets=offsets, changelogs=position.changelogs)
