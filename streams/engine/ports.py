"""The ports of the engine: everything that it asks of Kafka and of time.

`kafka.py` and `clock.py` implement them with aiokafka, Faust and the system's clocks. Nothing above the ports reads a
clock, sleeps or makes a client, so another implementation decides all that the engine sees and when it sees it.
"""

import asyncio
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from streams.engine.headers import Header
from streams.engine.merge import Damage, Record

TopicPartition = tuple[str, int]
"""A topic's full name, and a partition."""


TRANSACTION_TIMEOUT_MS: Final = 300_000
"""A tick over very many windows is one transaction. A dead worker's is aborted by the next owner, long before this."""


class Fetch(NamedTuple):
    """What was read from one partition: offsets `start` to `end` (exclusive). `start` 0: from the start of its log.

    `generation`: that of the assignment when it was read. It is taken at that moment: a later one could mark fresh
    records as stale, and recovery, which has already sought to its offsets, would not read them again.
    """

    records: list[Record]
    start: int
    end: int
    generation: int


class FencedError(RuntimeError):
    """Another producer was started with the same transactional id: the partition has another owner."""


class IdForgottenError(RuntimeError):
    """The broker no longer knows the transactional id: it was not used for days."""


class TopicState(NamedTuple):
    """A topic: its id, None where the broker gives none, and its number of partitions."""

    id: str | None
    partitions: int


class Consumer(Protocol):
    """The worker's member of the consumer group. It reads the inputs, and feeds each `Fetch` to the engine."""

    async def seek(self, positions: Mapping[TopicPartition, int]) -> None:
        """Continue reading each partition at its offset. Raises when one is not assigned."""

    def pause(self, partition: TopicPartition) -> None:
        """Fetch no more of a partition; what was fetched may still be fed."""

    def resume(self, partition: TopicPartition) -> None:
        """Fetch a paused partition again."""


class Reader(Protocol):
    """A consumer in no group that reads one partition from its beginning: committed records only.

    `damage`: why the partition can't be read on, for now.
    """

    damage: Damage | None

    async def start(self) -> None:
        """Connect. Raises `KafkaError`."""

    async def last_stable_offset(self) -> int:
        """Give the offset up to which every transaction is decided. Raises `KafkaError`."""

    async def read(self) -> tuple[Sequence[Record], int]:
        """Give the next records, and the offset after them. Waits 0.1 s where there are none. Raises `KafkaError`."""

    async def stop(self) -> None:
        """Disconnect."""


class Producer(Protocol):
    """An idempotent producer without transactions."""

    async def start(self) -> None:
        """Connect. Raises `KafkaError`."""

    async def send(self, partition: TopicPartition, value: bytes, timestamp_ms: int) -> None:
        """Write a record without a key, and wait until it is stored. Raises `KafkaError`."""

    async def stop(self) -> None:
        """Disconnect."""


class ProduceBatch(Protocol):
    """Records that go to one partition in one request."""

    def append(self, *, timestamp: int, key: bytes | None, value: bytes | None, headers: list[Header]) -> object | None:
        """Add a record; returns None, and adds nothing, where the batch is full. The first record always fits."""

    def record_count(self) -> int:
        """Give the number of records in it."""

    def close(self) -> None:
        """Take no more records."""


class Delivery(Protocol):
    """What the broker says of a stored batch."""

    @property
    def offset(self) -> int:
        """The offset of its first record."""


class TransactionalProducer(Protocol):
    """The producer of one transactional id.

    A call may raise any `KafkaError`, or another error that results from one; `cause_of` gives the first.
    """

    async def start(self) -> None:
        """Connect, abort the open transaction of an earlier producer with this id, and fence that one."""

    async def begin(self) -> None:
        """Begin a transaction."""

    def add_partitions(self, partitions: Iterable[TopicPartition]) -> None:
        """Have partitions join the transaction: all in one request, sent before the first batch."""

    def create_batch(self) -> ProduceBatch:
        """Give an empty batch."""

    async def send_batch(self, batch: ProduceBatch, partition: TopicPartition) -> Awaitable[Delivery]:
        """Send a closed batch. Waits until the batch before it is sent; what it returns, until this one is stored."""

    async def send_offsets(self, offsets: Mapping[TopicPartition, int], group: str) -> None:
        """Add a group's offsets to the transaction."""

    async def commit(self) -> None:
        """Commit the transaction, and wait until that is decided."""

    def cause_of(self, error: Exception) -> Exception:
        """Give the error that ended the transaction in which a call raised `error`, which may be `error` itself.

        A `FencedError` when another producer was started with this id, at whatever step that came to light; an
        `IdForgottenError` when the broker no longer knows the id.
        """

    async def stop(self) -> None:
        """Disconnect. An open transaction is aborted by the next producer with this id, or by its timeout."""


class Admin(Protocol):
    """Questions to the cluster."""

    async def start(self) -> None:
        """Connect. Raises `KafkaError`."""

    async def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Give the offset of the first record that each partition still has. Raises `KafkaError`."""

    async def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Give each partition's high watermark: after the records of open transactions, too. Raises `KafkaError`."""

    async def topics(self, names: Iterable[str]) -> dict[str, TopicState]:
        """Describe those of the topics that exist. Raises `KafkaError`."""

    async def last_records(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Record]:
        """Give the last committed record of each partition that has one. Raises `KafkaError`."""

    async def committed_offsets(self, group: str) -> dict[TopicPartition, int]:
        """Give the offsets that a group has committed. Raises `KafkaError`."""

    async def stop(self) -> None:
        """Disconnect."""


class Kafka(Protocol):
    """Makes the clients that the engine starts and stops."""

    def admin(self, client_id: str) -> Admin:
        """Give a client for questions about partitions."""

    def reader(self, partition: TopicPartition) -> Reader:
        """Give a reader of one partition."""

    def producer(self) -> Producer:
        """Give a producer without transactions."""

    def transactional_producer(self, transactional_id: str) -> TransactionalProducer:
        """Give a producer that, once started, is the only one with this id."""


class Clock(Protocol):
    """Time."""

    def monotonic_s(self) -> float:
        """Give the seconds since some moment; never falls."""

    def now_ms(self) -> int:
        """Give the wall-clock time, in UTC ms since 1970."""

    async def sleep(self, seconds: float) -> None:
        """Wait for so long; 0 lets other tasks run once."""

    async def wait(self, event: asyncio.Event, timeout_s: float | None = None) -> None:
        """Wait until `event` is set, for `timeout_s` at most where that is given."""
