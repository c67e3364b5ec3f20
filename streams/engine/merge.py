"""Whose turn it is: one partition's records of all its topics, in the order of the contract.

The record applied next has the smallest (timestamp, rank) among the topics' heads; within a topic the offset decides.
A topic with nothing queued has no head, so before anything is applied it must be known to have been read to its end:
its end offset is asked for after the record whose turn it would be was read, and all before that end is waited for.
"""

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol

NEVER: Final = -1
"""A timestamp before all others."""


class Record(Protocol):
    """A record as it was read."""

    @property
    def offset(self) -> int:
        """Its offset."""

    @property
    def timestamp(self) -> int:
        """When it happened, in ms."""

    @property
    def key(self) -> bytes | None:
        """Its key."""

    @property
    def value(self) -> bytes | None:
        """Its value."""

    @property
    def headers(self) -> Sequence[tuple[str, bytes]]:
        """Its headers."""


class Batch:
    """Consecutive records of one topic. `items` are their decoded values, once someone has decoded them."""

    __slots__ = ("asked", "at", "is_rising", "items", "plain", "records", "size_bytes", "times")

    def __init__(self, records: Sequence[Record], asked: int) -> None:
        self.records = records
        self.times = [record.timestamp for record in records]
        self.is_rising = all(a <= b for a, b in zip(self.times, self.times[1:], strict=False))
        self.size_bytes = sum(len(record.value or b"") for record in records)
        self.asked = asked
        self.at = 0
        self.items: list[Any] | None = None
        self.plain = False

    @property
    def left(self) -> int:
        """How many records are still to be applied."""
        return len(self.records) - self.at


class Run(NamedTuple):
    """Consecutive records of one topic whose turn it is: those of `batch` in [start, end)."""

    topic: str
    batch: Batch
    start: int
    end: int
    late: int


@dataclass(slots=True, eq=False)
class Queue:
    """One topic's records that were read and not yet applied.

    `fetched`: everything before this offset was handed over. `end`: an offset known to be, or to have been, the end of
    the topic. `applied_to`: the offset after the last record applied. `time`: the greatest timestamp applied.
    `max_run`: how many records a run of it may have.
    """

    topic: str
    rank: int
    max_run: int
    fetched: int = 0
    end: int = 0
    applied_to: int = 0
    time: int = NEVER
    stalled_since_s: float | None = None
    given_up: bool = False
    size: int = 0
    size_bytes: int = 0
    batches: deque[Batch] = field(default_factory=deque)

    @property
    def next_offset(self) -> int:
        """Where reading must go on after a restart: past markers, too, where nothing is queued before them."""
        return self.applied_to if self.batches else self.fetched

    @property
    def is_behind(self) -> bool:
        """There is something to come that was there when the end was asked for."""
        return self.fetched < self.end


class LostRecordsError(RuntimeError):
    """Records were handed over that do not follow those before: going on would skip some."""


class Merge:
    """The queues of one partition: of `topics`, each with its rank and the length of its runs.

    `patience_s`: how long a topic that is known to have more, and of which nothing arrives, is waited for.
    """

    def __init__(self, topics: Iterable[tuple[str, int, int]], *, patience_s: float) -> None:
        self.queues = {topic: Queue(topic, rank, max_run) for topic, rank, max_run in topics}
        self.patience_s = patience_s
        self.waits_for: str | None = None
        self.wake_at_s: float | None = None
        self._in_order = sorted(self.queues.values(), key=lambda queue: queue.rank)
        self._answered = 0

    def restart(self, positions: dict[str, int], times: dict[str, int]) -> None:
        """Forget what is queued: reading starts at `positions`, after what was applied up to `times`."""
        self.waits_for = self.wake_at_s = None
        self._answered = 0
        for queue in self._in_order:
            queue.batches.clear()
            queue.size = queue.size_bytes = 0
            queue.fetched = queue.end = queue.applied_to = positions.get(queue.topic, 0)
            queue.time = times.get(queue.topic, NEVER)
            queue.stalled_since_s = None
            queue.given_up = False

    def feed(self, topic: str, records: Sequence[Record], start: int, end: int, asked: int) -> None:
        """Take what was read of `topic` from offset `start` up to `end`; `records` may be fewer, or none.

        `asked` counts the questions for end offsets sent so far: only a later one's answer says what was there when
        these records were read. What was handed over before is left out; raises `LostRecordsError` where some is
        missing.
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
        queue.given_up = False
        if records:
            batch = Batch(records, asked)
            queue.batches.append(batch)
            queue.size += len(records)
            queue.size_bytes += batch.size_bytes

    def know_ends(self, ends: dict[str, int], asked: int) -> None:
        """Take the answer to question number `asked`: where each topic ended."""
        self._answered = max(self._answered, asked)
        for topic, end in ends.items():
            queue = self.queues[topic]
            queue.end = max(queue.end, end)

    def reach(self, topic: str, offset: int) -> None:
        """Say that `topic`, which is read elsewhere, was read up to `offset`."""
        queue = self.queues[topic]
        if offset > queue.fetched:
            queue.fetched = offset
            queue.stalled_since_s = None
            queue.given_up = False

    def next_run(self, now_s: float) -> Run | None:
        """Take the next run off its queue; None when there is nothing, or it must wait.

        `waits_for` then names the topic (or, as `?`, the answer) it waits for, and `wake_at_s` when patience ends.
        """
        self.waits_for = self.wake_at_s = None
        head: Queue | None = None
        head_time = other_time = other_rank = 0
        has_other = False
        for queue in self._in_order:
            if not queue.batches:
                continue
            batch = queue.batches[0]
            time = batch.times[batch.at]
            if head is None:
                head, head_time = queue, time
            elif time < head_time:
                # Queues come by rank, so an equal time is no reason to go first.
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
        """Whether a topic without a head may still have something that comes before `batch`."""
        waits = False
        for queue in self._in_order:
            if queue.batches:
                continue
            if batch.asked >= self._answered:
                self.waits_for = "?"
                return True
            if not queue.is_behind or queue.given_up:
                continue
            if queue.stalled_since_s is None:
                queue.stalled_since_s = now_s
            patience_ends_s = queue.stalled_since_s + self.patience_s
            if now_s >= patience_ends_s:
                queue.given_up = True
                continue
            waits = True
            if self.wake_at_s is None or patience_ends_s < self.wake_at_s:
                self.waits_for, self.wake_at_s = queue.topic, patience_ends_s
        return waits

    @staticmethod
    def _run_end(batch: Batch, end: int, other_time: int, *, goes_first: bool) -> int:
        """Up to where `batch` comes before another topic's head at `other_time`; one record always does."""
        if batch.is_rising:
            find = bisect_right if goes_first else bisect_left
            return max(batch.at + 1, find(batch.times, other_time, batch.at, end))
        last = other_time if goes_first else other_time - 1
        stop = batch.at + 1
        while stop < end and batch.times[stop] <= last:
            stop += 1
        return stop

    def _take(self, queue: Queue, batch: Batch, start: int, end: int) -> Run:
        late = self._count_late(queue, batch, start, end)
        batch.at = end
        queue.size -= end - start
        if end == len(batch.records):
            queue.batches.popleft()
            queue.size_bytes -= batch.size_bytes
        queue.applied_to = batch.records[end - 1].offset + 1
        return Run(queue.topic, batch, start, end, late)

    def _count_late(self, queue: Queue, batch: Batch, start: int, end: int) -> int:
        """How many come after one of another topic that they should have preceded; moves the topic's time on.

        What counts is the greatest time so far in a record's own topic: one behind a later one had to wait for it.
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

    @property
    def lag_records(self) -> int:
        """How many offsets are known and not applied: of queued records, and of what is still to be read."""
        return sum(queue.size + max(0, queue.end - queue.fetched) for queue in self._in_order)

    @property
    def newest(self) -> int | None:
        """The greatest time of a queued record, as far as the last of each topic tells; None: nothing is queued."""
        return max((queue.batches[-1].times[-1] for queue in self._in_order if queue.batches), default=None)

    @property
    def as_of(self) -> int:
        """The greatest time applied."""
        return max(queue.time for queue in self._in_order)
