"""The ports of the engine: its interfaces to Kafka and to the clock.

`kafka.py` and `clock.py` implement them with aiokafka, Faust and the system's clocks. No other part of the engine reads
a clock, sleeps or creates a client, so a test can replace them all.
"""

import asyncio
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from streams.engine.headers import Header
from streams.engine.merge import Damage, Record
from topics.provision import NewTopicSpec

TopicPartition = tuple[str, int]
"""A topic's full name, and a partition."""


TRANSACTION_TIMEOUT_MS: Final = 300_000
"""Long, since a tick over all windows is one transaction. The next owner aborts a killed worker's much sooner."""


class Fetch(NamedTuple):
    """What was read from one partition: offsets `start` to `end` (exclusive). `start` 0: from the start of its log.

    `generation`: that of the assignment at the time of the fetch. A later one could make these records look outdated,
    and recovery, which has already sought to its offsets, would not read them again.
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
    """The worker's member of the consumer group. It reads the inputs, and passes each `Fetch` to the engine."""

    async def seek(self, positions: Mapping[TopicPartition, int]) -> None:
        """Continue reading each partition at its offset. Raises when one is not assigned."""

    def pause(self, partition: TopicPartition) -> None:
        """Stop fetching a partition; what was fetched may still be passed on."""

    def resume(self, partition: TopicPartition) -> None:
        """Continue fetching a paused partition."""


class Reader(Protocol):
    """A consumer in no group that reads one partition from its beginning: committed records only.

    `damage`: why the partition can't be read at the moment.
    """

    damage: Damage | None

    async def start(self) -> None:
        """Connect. Raises `KafkaError`."""

    async def last_stable_offset(self) -> int:
        """Return the last stable offset. Raises `KafkaError`."""

    async def read(self) -> tuple[Sequence[Record], int]:
        """Return the next records, and the offset after them. Raises `KafkaError`.

        Waits a quarter of a second if there are none.
        """

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
        """Add a record; returns None, and adds nothing, if the batch is full. The first record always fits."""

    def record_count(self) -> int:
        """Return the number of records in it."""

    def close(self) -> None:
        """Take no more records."""


class Delivery(Protocol):
    """The broker's response for a stored batch."""

    @property
    def offset(self) -> int:
        """The offset of its first record."""


class TransactionalProducer(Protocol):
    """The producer of one transactional id.

    A call may raise any `KafkaError`, or another error that results from one; `cause_of` returns the original error.
    """

    async def start(self) -> None:
        """Connect, fence the earlier producer with this id, and abort its open transaction."""

    async def begin(self) -> None:
        """Begin a transaction."""

    def add_partitions(self, partitions: Iterable[TopicPartition]) -> None:
        """Add partitions to the transaction: all in one request, sent before the first batch."""

    def create_batch(self) -> ProduceBatch:
        """Return an empty batch."""

    async def send_batch(self, batch: ProduceBatch, partition: TopicPartition) -> Awaitable[Delivery]:
        """Send a closed batch, once the one before it is sent. Returns an awaitable that waits until it is stored."""

    async def send_offsets(self, offsets: Mapping[TopicPartition, int], group: str) -> None:
        """Add a group's offsets to the transaction."""

    async def commit(self) -> None:
        """Commit the transaction, and wait until it is committed."""

    def cause_of(self, error: Exception) -> Exception:
        """Return the error that ended the transaction in which a call raised `error`, which may be `error` itself.

        It is a `FencedError` when another producer was started with this id, and an `IdForgottenError` when the broker
        no longer knows the id.
        """

    async def stop(self) -> None:
        """Disconnect. An open transaction is aborted by the next producer with this id, or by its timeout."""


class Admin(Protocol):
    """Requests about the cluster's topics, offsets and groups."""

    async def start(self) -> None:
        """Connect. Raises `KafkaError`."""

    async def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the offset of the first record that each partition still has. Raises `KafkaError`."""

    async def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return each partition's high watermark, after the records of open transactions. Raises `KafkaError`."""

    async def stable_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return each partition's last stable offset: before the first open transaction. Raises `KafkaError`."""

    async def topics(self, names: Iterable[str]) -> dict[str, TopicState]:
        """Describe those of the topics that exist. Raises `KafkaError`."""

    async def check_configs(self, topics: Sequence[NewTopicSpec]) -> None:
        """Raise `ProvisionError` if a topic's configuration differs in a fixed entry, or `KafkaError`."""

    async def last_records(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Record]:
        """Return the last committed record of each partition that has one. Raises `KafkaError`."""

    async def committed_offsets(self, group: str) -> dict[TopicPartition, int]:
        """Return the offsets that a group has committed. Raises `KafkaError`."""

    async def stop(self) -> None:
        """Disconnect."""


class Kafka(Protocol):
    """Creates the clients that the engine starts and stops."""

    def admin(self, client_id: str) -> Admin:
        """Return a client for `Admin` requests."""

    def reader(self, partition: TopicPartition) -> Reader:
        """Return a reader of one partition."""

    def producer(self) -> Producer:
        """Return a producer without transactions."""

    def transactional_producer(self, transactional_id: str) -> TransactionalProducer:
        """Return a producer that, once started, is the only one with this id."""


class Clock(Protocol):
    """Time."""

    def monotonic_s(self) -> float:
        """Return seconds of a monotonic clock."""

    def now_ms(self) -> int:
        """Return the wall-clock time, in UTC ms since 1970."""

    async def sleep(self, seconds: float) -> None:
        """Wait for `seconds`; 0 lets other tasks run once."""

    async def wait(self, event: asyncio.Event, timeout_s: float | None = None) -> None:
        """Wait until `event` is set, at most for `timeout_s` if that is given."""
