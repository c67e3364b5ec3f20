"""The order in which one partition's records are applied, across its topics (contract, "In").

The record applied next has the smallest (timestamp, rank) among the heads of the topics' queues; within a topic the
offset decides. A record whose timestamp is out of range is applied as soon as it is a head, and does not change any
topic's time.

An empty queue has no head. So before a record is applied, each topic with an empty queue must be known to be read to
its end: the end offsets are requested after the record was read, and the merge waits for everything before them.
"""

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Final, Literal, NamedTuple, Protocol

from schemas.times import is_time
from streams.engine.headers import Header

NEVER: Final = -1
"""A timestamp before all others."""

MAX_QUEUED_RECORDS: Final = 10_000
MAX_QUEUED_BYTES: Final = 8 * 1024 * 1024
"""A queue over either limit is full; it has room again below half of both."""


class Record(Protocol):
    """A record that was read from Kafka."""

    @property
    def offset(self) -> int:
        """The offset in its partition."""

    @property
    def timestamp(self) -> int:
        """The event time, in ms."""

    @property
    def key(self) -> bytes | None:
        """The key."""

    @property
    def value(self) -> bytes | None:
        """The value."""

    @property
    def headers(self) -> Sequence[Header]:
        """The headers."""


class Unreadable(NamedTuple):
    """A record that could not be read in full. `reason` and `error` go into its dead letter.

    `topic` is the full name. `truncated`: the key or the value is not complete.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    reason: Literal["too_large", "undecodable"]
    error: str
    truncated: bool = False
    headers: tuple[Header, ...] = ()


class Damage(NamedTuple):
    """A log can't be read at `offset`: its bytes are damaged, or the broker returns an error.

    `may_pass`: the log itself may be intact.
    """

    offset: int
    reason: str
    may_pass: bool = False


class Batch:
    """Consecutive records of one topic. `items` are their decoded values; None until they are decoded.

    `has_time`: whether their timestamps are in range: all are, or none is. `asked`: as in `Merge.feed`. `plain`: all
    are heartbeats of this partition's orgs, which are applied in one call.
    """

    __slots__ = ("asked", "at", "has_time", "is_rising", "items", "plain", "records", "size_bytes", "times")

    def __init__(self, records: Sequence[Record], asked: int, *, has_time: bool = True) -> None:
        self.records = records
        self.times = [record.timestamp for record in records]
        self.has_time = has_time
        self.is_rising = self.times == sorted(self.times)
        keys, values = [record.key or b"" for record in records], [record.value or b"" for record in records]
        self.size_bytes = sum(map(len, keys)) + sum(map(len, values))
        self.asked = asked
        self.at = 0
        self.items: list[Any] | None = None
        self.plain = False

    @property
    def left(self) -> int:
        """How many records are not yet applied."""
        return len(self.records) - self.at


def _batches(records: Sequence[Record], asked: int) -> Iterator[Batch]:
    """Split records into batches whose timestamps are all in range, or all out of range."""
    if not records:
        return
    times = [record.timestamp for record in records]
    if is_time(min(times)) and is_time(max(times)):
        yield Batch(records, asked)
        return
    for has_time, group in groupby(records, key=lambda record: is_time(record.timestamp)):
        yield Batch(list(group), asked, has_time=has_time)


class Run(NamedTuple):
    """Consecutive records of one topic to be applied next: those of `batch` in [start, end).

    `late`: how many of them are out of order.
    """

    topic: str
    batch: Batch
    start: int
    end: int
    late: int


@dataclass(slots=True, eq=False)
class Queue:
    """One topic's records that were read and are not yet applied.

    `fetched`: the offset after the last record read. `end`: the greatest end offset known. `applied_to`: the
    offset after the last record applied. `time`: the greatest timestamp applied, in ms. `max_run`: how many records a
    run may have. `stalled_since_s`: since when the merge waits for records before `end`; None when it does not.
    `damage`: why no more can be read.
    """

    topic: str
    rank: int
    max_run: int
    fetched: int = 0
    end: int = 0
    applied_to: int = 0
    time: int = NEVER
    stalled_since_s: float | None = None
    damage: Damage | None = None
    size: int = 0
    size_bytes: int = 0
    batches: deque[Batch] = field(default_factory=deque)

    @property
    def next_offset(self) -> int:
        """The offset to commit, from which a restart reads: past control markers, once nothing is queued."""
        return self.applied_to if self.batches else self.fetched

    @property
    def is_behind(self) -> bool:
        """Whether offsets before the known end offset are not read yet."""
        return self.fetched < self.end


@dataclass(frozen=True, slots=True)
class Wait:
    """What a merge waits for: records of `topic`, at most until `until_s`; without `topic`, end offsets."""

    topic: str | None = None
    until_s: float | None = None

    @property
    def is_for_end_offsets(self) -> bool:
        """Whether the end offsets must be requested."""
        return self.topic is None


_FOR_END_OFFSETS: Final = Wait()


class LostRecordsError(RuntimeError):
    """Records are missing before the records fed: applying these would skip some."""


class Merge:
    """The queues of one partition. `topics`: each with its rank and the maximum length of its runs.

    `stall_timeout_s`: how long to wait for records of a topic before its end offset that do not arrive.
    `wait`: why the last call of `next_run` returned no run although records are queued; else None.
    """

    def __init__(self, topics: Iterable[tuple[str, int, int]], *, stall_timeout_s: float) -> None:
        self.queues = {topic: Queue(topic, rank, max_run) for topic, rank, max_run in topics}
        self.stall_timeout_s = stall_timeout_s
        self.wait: Wait | None = None
        self._in_order = sorted(self.queues.values(), key=lambda queue: queue.rank)
        self._answered = 0

    def restart(self, positions: dict[str, int], times: dict[str, int]) -> None:
        """Empty the queues. Reading starts at the offsets `positions`; `times` are the greatest timestamps applied."""
        self.wait = None
        self._answered = 0
        for queue in self._in_order:
            queue.batches.clear()
            queue.size = queue.size_bytes = 0
            queue.fetched = queue.end = queue.applied_to = positions.get(queue.topic, 0)
            queue.time = times.get(queue.topic, NEVER)
            queue.stalled_since_s = None
            queue.damage = None

    def feed(self, topic: str, records: Sequence[Record], start: int, end: int, asked: int) -> None:
        """Queue the records read of `topic` in the offsets [start, end); control markers leave gaps in these.

        `asked`: the number of requests for end offsets sent so far. Only the response to a later one covers the records
        that were in the other topics when these were read. Records fed before are left out. Raises `LostRecordsError`
        when `start` is beyond the next offset.
        """
        queue = self.queues[topic]
        if start > queue.fetched:
            msg = f"{topic}: read from offset {start}, but {queue.fetched} is next"
            raise LostRecordsError(msg)
        if end <= queue.fetched:
            return
        if start < queue.fetched:
            records = [record for record in records if record.offset >= queue.fetched]
        queue.fetched = end
        queue.stalled_since_s = None
        for batch in _batches(records, asked):
            queue.batches.append(batch)
            queue.size += len(batch.records)
            queue.size_bytes += batch.size_bytes

    def block(self, topic: str, damage: Damage | None) -> None:
        """Block a topic that can't be read, or with None unblock it. The merge waits for a blocked topic."""
        self.queues[topic].damage = damage

    def damage(self, topic: str) -> Damage | None:
        """Return why a topic can't be read; None when it can."""
        return self.queues[topic].damage

    @property
    def blocked(self) -> tuple[str, Damage] | None:
        """The first topic that can't be read, and why; None when there is none."""
        return next(((queue.topic, queue.damage) for queue in self._in_order if queue.damage is not None), None)

    def set_ends(self, ends: dict[str, int], asked: int) -> None:
        """Set the end offset of each topic, from the response to request number `asked`."""
        self._answered = max(self._answered, asked)
        for topic, end in ends.items():
            queue = self.queues[topic]
            queue.end = max(queue.end, end)

    def set_read(self, topic: str, offset: int) -> None:
        """Record that `topic`, whose records are not queued here, was read up to `offset`."""
        queue = self.queues[topic]
        if offset > queue.fetched:
            queue.fetched = offset
            queue.stalled_since_s = None

    def next_run(self, now_s: float) -> Run | None:
        """Remove the next run from its queue, and return it; None when nothing is queued, or `wait` is set.

        `now_s`: seconds of any monotonic clock, for the stall timeouts.
        """
        self.wait = None
        head: Queue | None = None
        head_time = other_time = other_rank = 0
        has_other = False
        for queue in self._in_order:
            if not queue.batches:
                continue
            batch = queue.batches[0]
            if not batch.has_time:
                return self._take(queue, batch, batch.at, min(len(batch.records), batch.at + queue.max_run))
            time = batch.times[batch.at]
            if head is None:
                head, head_time = queue, time
            elif time < head_time:
                # Queues are in order of rank, so at equal times the earlier queue goes first.
                if not has_other or head_time <= other_time:
                    other_time, other_rank, has_other = head_time, head.rank, True
                head, head_time = queue, time
            elif not has_other or time < other_time:
                other_time, other_rank, has_other = time, queue.rank, True
        if head is None or self._must_wait(head.batches[0], now_s):
            return None
        batch = head.batches[0]
        start = batch.at
        end = min(len(batch.records), start + head.max_run)
        if has_other:
            end = self._run_end(batch, end, other_time, goes_first=head.rank < other_rank)
        return self._take(head, batch, start, end)

    def _must_wait(self, batch: Batch, now_s: float) -> bool:
        """Set `wait` where a topic with an empty queue may still have a record that comes before `batch`."""
        for queue in self._in_order:
            if queue.batches:
                continue
            if queue.damage is not None:
                self.wait = Wait(queue.topic)
                return True
            if batch.asked >= self._answered:
                self.wait = _FOR_END_OFFSETS
                return True
            if not queue.is_behind:
                continue
            if queue.stalled_since_s is None:
                queue.stalled_since_s = now_s
            until_s = queue.stalled_since_s + self.stall_timeout_s
            if now_s < until_s and (self.wait is None or until_s < (self.wait.until_s or 0.0)):
                self.wait = Wait(queue.topic, until_s)
        return self.wait is not None

    @staticmethod
    def _run_end(batch: Batch, end: int, other_time: int, *, goes_first: bool) -> int:
        """Return the end of the records of `batch` that precede another topic's head at `other_time`: at least one."""
        if batch.is_rising:
            find = bisect_right if goes_first else bisect_left
            return max(batch.at + 1, find(batch.times, other_time, batch.at, end))
        last = other_time if goes_first else other_time - 1
        stop = batch.at + 1
        while stop < end and batch.times[stop] <= last:
            stop += 1
        return stop

    def _take(self, queue: Queue, batch: Batch, start: int, end: int) -> Run:
        late = self._count_late(queue, batch, start, end) if batch.has_time else 0
        batch.at = end
        queue.size -= end - start
        if end == len(batch.records):
            queue.batches.popleft()
            queue.size_bytes -= batch.size_bytes
        queue.applied_to = batch.records[end - 1].offset + 1
        return Run(queue.topic, batch, start, end, late)

    def _count_late(self, queue: Queue, batch: Batch, start: int, end: int) -> int:
        """Return how many records are out of order, and advance the topic's time.

        A record is compared by the greatest time so far in its own topic: it had to wait for a later one before it.
        """
        others = max(
            ((other.time, other.rank) for other in self._in_order if other is not queue and other.time != NEVER),
            default=(NEVER, NEVER),
        )
        if batch.is_rising and max(queue.time, batch.times[start]) > others[0]:
            queue.time = max(queue.time, batch.times[end - 1])
            return 0
        late = 0
        for time in batch.times[start:end]:
            queue.time = max(queue.time, time)
            late += (queue.time, queue.rank) < others
        return late

    def fetched(self, topic: str) -> int:
        """Return the next offset of `topic` to be read: the one after the last that was fed."""
        return self.queues[topic].fetched

    def is_full(self, topic: str) -> bool:
        """Return whether reading of `topic` should be paused."""
        queue = self.queues[topic]
        return queue.size > MAX_QUEUED_RECORDS or queue.size_bytes > MAX_QUEUED_BYTES

    def has_room(self, topic: str) -> bool:
        """Return whether reading of a paused `topic` should be resumed: its queue is at most half full."""
        queue = self.queues[topic]
        return queue.size < MAX_QUEUED_RECORDS // 2 and queue.size_bytes < MAX_QUEUED_BYTES // 2

    @property
    def lag_records(self) -> int:
        """The number of offsets not applied: queued records, and unread offsets before the end offsets."""
        return sum(queue.size + max(0, queue.end - queue.fetched) for queue in self._in_order)

    @property
    def newest(self) -> int | None:
        """The greatest timestamp among the last queued records of the topics, in ms; None when nothing is queued."""
        last = (queue.batches[-1] for queue in self._in_order if queue.batches)
        return max((batch.times[-1] for batch in last if batch.has_time), default=None)

    @property
    def as_of(self) -> int:
        """The greatest timestamp applied, in ms; `NEVER` before any."""
        return max(queue.time for queue in self._in_order)
