"""The ports in memory: logs with transactions, a consumer that records calls, a clock that the test moves."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from aiokafka.errors import KafkaError

from streams.engine import ports
from streams.engine.ports import FencedError, TopicPartition
from topics.provision import ProvisionError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence

    from streams.engine.fatal import Accident
    from streams.engine.headers import Header
    from streams.engine.merge import Damage, Record
    from topics.provision import NewTopicSpec

TURNS = 50
"""Iterations of the event loop: more than any chain of tasks here needs until it waits."""


async def settle() -> None:
    """Let every task run until it waits for something."""
    for _ in range(TURNS):
        await asyncio.sleep(0)


async def until(condition: Callable[[], object]) -> None:
    """Let tasks run until `condition` is true."""
    for _ in range(TURNS):
        if condition():
            return
        await asyncio.sleep(0)
    msg = f"it does not hold after {TURNS} turns of the event loop"
    raise AssertionError(msg)


class FakeClock(ports.Clock):
    """A clock that only `advance` moves; tasks run at each time for which one of them waits."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self._timers: list[tuple[float, asyncio.Future[None]]] = []

    def monotonic_s(self) -> float:
        return self.now_s

    def now_ms(self) -> int:
        return int(self.now_s * 1_000)

    async def sleep(self, seconds: float) -> None:
        await (self._timer(seconds) if seconds > 0 else asyncio.sleep(0))

    async def wait(self, event: asyncio.Event, timeout_s: float | None = None) -> None:
        if event.is_set():
            return
        waiting: set[asyncio.Future[Any]] = {asyncio.ensure_future(event.wait())}
        if timeout_s is not None:
            waiting.add(self._timer(timeout_s))
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for future in waiting:
                future.cancel()

    async def advance(self, seconds: float) -> None:
        end_s = self.now_s + seconds
        await settle()
        while due := [timer for timer in self._timers if timer[0] <= end_s and not timer[1].done()]:
            first = min(due, key=lambda timer: timer[0])
            self._timers.remove(first)
            self.now_s = max(self.now_s, first[0])
            first[1].set_result(None)
            await settle()
        self.now_s = end_s

    def _timer(self, seconds: float) -> asyncio.Future[None]:
        timer = asyncio.get_running_loop().create_future()
        self._timers.append((self.now_s + seconds, timer))
        return timer


class FakeConsumer(ports.Consumer):
    """Records its calls. `on_seek` is called during a seek."""

    def __init__(self) -> None:
        self.sought: list[dict[TopicPartition, int]] = []
        self.paused: set[TopicPartition] = set()
        self.on_seek: Any = lambda: None

    async def seek(self, positions: Mapping[TopicPartition, int]) -> None:
        self.sought.append(dict(positions))
        self.on_seek()

    def pause(self, partition: TopicPartition) -> None:
        self.paused.add(partition)

    def resume(self, partition: TopicPartition) -> None:
        self.paused.remove(partition)


class Written(NamedTuple):
    """A record of a log, or with `timestamp` -1 a commit marker."""

    offset: int
    timestamp: int
    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[Header, ...] = ()


class FakeKafka(ports.Kafka):
    """A cluster with every topic. `calls` lists what it was asked. `failing` has the named call raise an error.

    `states` has what differs from a topic with an id of its own and `partitions` partitions; None: there is none.
    `misconfigured`: by topic, what is wrong with its configuration. `refusing`: what a batch sent to a partition fails
    with. A record sent to a partition of `stuck` is never stored.
    """

    def __init__(self, max_batch_records: int = 100) -> None:
        self.logs: dict[TopicPartition, list[Written]] = defaultdict(list)
        self.beginnings: dict[TopicPartition, int] = {}
        self.stable: dict[TopicPartition, int] = {}
        self.offsets: dict[TopicPartition, int] = {}
        self.epochs: dict[str, int] = defaultdict(int)
        self.calls: list[str] = []
        self.failing: dict[str, Exception] = {}
        self.max_batch_records = max_batch_records
        self.partitions = 1
        self.refusing: dict[TopicPartition, Exception] = {}
        self.open: dict[str, list[tuple[TopicPartition, int, int]]] = defaultdict(list)
        self.stuck: set[TopicPartition] = set()
        self.states: dict[str, ports.TopicState | None] = {}
        self.misconfigured: dict[str, str] = {}
        self.committing = asyncio.Event()
        self.committing.set()

    def called(self, call: str) -> None:
        self.calls.append(call)
        if error := self.failing.get(call.split(maxsplit=1)[0]):
            raise error

    def topics(self, name: str) -> ports.TopicState | None:
        return self.states.get(name, ports.TopicState(f"id-of-{name}", 1 if "prices" in name else self.partitions))

    def records(self, partition: TopicPartition) -> list[Written]:
        return [record for record in self.logs[partition] if record.timestamp >= 0]

    def admin(self, client_id: str) -> FakeAdmin:  # noqa: ARG002 - the port's
        return FakeAdmin(self)

    def reader(self, partition: TopicPartition) -> FakeReader:
        return FakeReader(self, partition)

    def producer(self) -> FakeProducer:
        return FakeProducer(self)

    def transactional_producer(self, transactional_id: str) -> FakeTransactionalProducer:
        return FakeTransactionalProducer(self, transactional_id)


class _FakeClient:
    def __init__(self, kafka: FakeKafka) -> None:
        self.kafka = kafka

    async def start(self) -> None:
        self.kafka.called("start")

    async def stop(self) -> None:
        self.kafka.called("stop")


class FakeAdmin(_FakeClient, ports.Admin):
    async def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        self.kafka.called("beginning_offsets")
        await asyncio.sleep(0)
        return {partition: self.kafka.beginnings.get(partition, 0) for partition in partitions}

    async def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        self.kafka.called("end_offsets")
        await asyncio.sleep(0)
        return {partition: len(self.kafka.logs[partition]) for partition in partitions}

    async def stable_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        self.kafka.called("stable_offsets")
        await asyncio.sleep(0)
        return {
            partition: self.kafka.stable.get(partition, len(self.kafka.logs[partition])) for partition in partitions
        }

    async def topics(self, names: Iterable[str]) -> dict[str, ports.TopicState]:
        self.kafka.called("topics")
        await asyncio.sleep(0)
        return {name: state for name in names if (state := self.kafka.topics(name)) is not None}

    async def check_configs(self, topics: Sequence[NewTopicSpec]) -> None:
        self.kafka.called("check_configs")
        await asyncio.sleep(0)
        for topic in topics:
            if words := self.kafka.misconfigured.get(topic.name):
                raise ProvisionError(words)

    async def last_records(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Record]:
        self.kafka.called("last_records")
        await asyncio.sleep(0)
        found = {partition: self.kafka.records(partition) for partition in partitions}
        return {partition: records[-1] for partition, records in found.items() if records}

    async def committed_offsets(self, group: str) -> dict[TopicPartition, int]:
        self.kafka.called(f"committed_offsets {group}")
        return dict(self.kafka.offsets)


class FakeReader(_FakeClient, ports.Reader):
    """Reads a record at a time, up to the last stable offset; where that is not given, to the end."""

    def __init__(self, kafka: FakeKafka, partition: TopicPartition) -> None:
        super().__init__(kafka)
        self.partition = partition
        self.position = 0
        self.damage: Damage | None = None
        self.more = asyncio.Event()

    async def last_stable_offset(self) -> int:
        return self.kafka.stable.get(self.partition, len(self.kafka.logs[self.partition]))

    async def read(self) -> tuple[Sequence[Record], int]:
        if self.position >= await self.last_stable_offset():
            self.more.clear()
            await self.more.wait()
        record = self.kafka.logs[self.partition][self.position]
        self.position += 1
        return [record] if record.timestamp >= 0 else [], self.position


class FakeProducer(_FakeClient, ports.Producer):
    async def send(self, partition: TopicPartition, value: bytes, timestamp_ms: int) -> None:
        self.kafka.called("send")
        if partition in self.kafka.stuck:
            await asyncio.get_running_loop().create_future()
        log = self.kafka.logs[partition]
        log.append(Written(len(log), timestamp_ms, None, value))


class FakeBatch(ports.ProduceBatch):
    def __init__(self, max_records: int) -> None:
        self.records: list[Written] = []
        self.max_records = max_records
        self.closed = False

    def append(self, *, timestamp: int, key: bytes | None, value: bytes | None, headers: list[Header]) -> object | None:
        if self.closed or len(self.records) >= self.max_records:
            return None
        self.records.append(Written(-1, timestamp, key, value, tuple(headers)))
        return self

    def record_count(self) -> int:
        return len(self.records)

    def close(self) -> None:
        self.closed = True


class FakeTransactionalProducer(_FakeClient, ports.TransactionalProducer):
    """What it writes is in the logs at once, and its offsets with the commit, which waits for `kafka.committing`."""

    def __init__(self, kafka: FakeKafka, transactional_id: str) -> None:
        super().__init__(kafka)
        self.id = transactional_id
        self.epoch = 0
        self.partitions: set[TopicPartition] = set()
        self.offsets: dict[TopicPartition, int] = {}

    def called(self, call: str) -> None:
        self.kafka.called(f"{call} {self.id}")
        if self.epoch < self.kafka.epochs[self.id]:
            msg = "there is no transaction"
            raise KafkaError(msg)

    async def start(self) -> None:
        self.kafka.epochs[self.id] += 1
        self.epoch = self.kafka.epochs[self.id]
        self.called("fence")
        # Aborted records are not read; like the marker, they take offsets.
        for partition, first, count in self.kafka.open.pop(self.id, ()):
            log = self.kafka.logs[partition]
            log[first : first + count] = [record._replace(timestamp=-1) for record in log[first : first + count]]
            log.append(Written(len(log), -1))

    async def begin(self) -> None:
        self.called("begin")

    def add_partitions(self, partitions: Iterable[TopicPartition]) -> None:
        self.partitions = set(partitions)
        self.called("add_partitions")

    def create_batch(self) -> FakeBatch:
        return FakeBatch(self.kafka.max_batch_records)

    async def send_batch(self, batch: ports.ProduceBatch, partition: TopicPartition) -> Awaitable[ports.Delivery]:
        assert isinstance(batch, FakeBatch)
        assert batch.closed
        assert batch.records
        assert partition in self.partitions
        self.called(f"send_batch {partition[0]}")
        log = self.kafka.logs[partition]
        first = len(log)
        log += [record._replace(offset=first + at) for at, record in enumerate(batch.records)]
        delivery: asyncio.Future[ports.Delivery] = asyncio.get_running_loop().create_future()
        if refusal := self.kafka.refusing.get(partition):
            del log[first:]
            delivery.set_exception(refusal)
        else:
            self.kafka.open[self.id].append((partition, first, len(batch.records)))
            delivery.set_result(log[first])
        return delivery

    async def send_offsets(self, offsets: Mapping[TopicPartition, int], group: str) -> None:
        self.called(f"send_offsets {group}")
        self.offsets = dict(offsets)

    async def commit(self) -> None:
        self.called("commit")
        await self.kafka.committing.wait()
        if error := self.kafka.failing.get("committed"):
            raise error
        self.kafka.open.pop(self.id, None)
        for partition in self.partitions:
            log = self.kafka.logs[partition]
            log.append(Written(len(log), -1))
        self.kafka.offsets |= self.offsets

    def cause_of(self, error: Exception) -> Exception:
        return FencedError(self.id) if self.epoch < self.kafka.epochs[self.id] else error

    async def stop(self) -> None:
        self.kafka.calls.append(f"stop {self.id}")


class ProcessEndedError(Exception):
    """Raised by `end_process` in these tests."""


ENDS: list[ProcessEndedError] = []
"""The errors that would have ended the process, also those raised in tasks."""


def process_ends(accident: Accident, reason: str, error: BaseException | None = None) -> None:
    """Replace `end_process`."""
    ENDS.append(ProcessEndedError(reason, accident))
    raise ENDS[-1] from error


@contextmanager
def process_end() -> Iterator[list[ProcessEndedError]]:
    """Expect that the process ends once in this block, and have the block's caller see with what."""
    ended: list[ProcessEndedError] = []
    with pytest.raises(ProcessEndedError):
        yield ended
    ended += ENDS
    assert len(ended) == 1
    ENDS.clear()
