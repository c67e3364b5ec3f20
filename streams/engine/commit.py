"""Commits: a shard's rows, its messages and its input offsets in one transaction.

Each partition has a producer of its own, whose transactional id is the partition's. Starting it fences the previous
owner's producer, and aborts its open transaction.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NoReturn

from aiokafka.errors import (
    InvalidTimestampError,
    KafkaError,
    MessageSizeTooLargeError,
    PolicyViolationError,
    RecordListTooLargeError,
    TopicAuthorizationFailedError,
)

from streams.engine import position as positions
from streams.engine.changelogs import Changelogs, ends_after
from streams.engine.fatal import Accident, AccidentError, end_process, end_with, guarded
from streams.engine.headers import Header
from streams.engine.ports import (
    TRANSACTION_TIMEOUT_MS,
    Admin,
    Clock,
    Delivery,
    FencedError,
    IdForgottenError,
    Kafka,
    TopicPartition,
    TransactionalProducer,
)
from streams.engine.position import decode_position, encode_position
from streams.engine.shard import Commit, Shard
from streams.engine.tasks import cancel_and_wait
from streams.engine.waits import Waits
from streams.rules.decision import LogLine
from topics.catalogue import USAGE

MAX_COMMITS_AT_ONCE: Final = 4
"""A commit is in memory while it is written, so this bounds the memory of all commits."""

COMMIT_DEADLINE_S: Final = 360.0
"""Longer than `TRANSACTION_TIMEOUT_MS`, after which the broker aborts the transaction."""

BLOCKED_RETRY_S: Final = 5.0
"""How often a commit that a topic refuses is tried again."""

REFUSALS: Final[dict[type[KafkaError], str]] = {
    MessageSizeTooLargeError: "raise its max.message.bytes to 1048588",
    RecordListTooLargeError: "raise its segment.bytes above 1 MiB",
    InvalidTimestampError: "correct this machine's clock, or raise its message.timestamp.before.max.ms and "
    "message.timestamp.after.max.ms",
    TopicAuthorizationFailedError: "allow the worker's user to write to it",
    PolicyViolationError: "correct the cluster's policy for it",
}
"""Errors of a topic that refuses records for as long as it is set up as it is, with the fix."""

_LEVELS: Final = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
_NO_HEADERS: Final[list[Header]] = []

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _CommitLoop:
    """The committing of one partition.

    `pending` is set when its shard has something to commit, `urgent` when the shard can't apply more before a commit.
    `refused`: the commit that a topic refuses.
    """

    shard: Shard
    committer: "Committer"
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    pending: asyncio.Event = field(default_factory=asyncio.Event)
    urgent: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None
    refused: Commit | None = None


class RefusedError(RuntimeError):
    """A topic refuses the records of a transaction, which is not committed."""

    def __init__(self, topic: str, error: KafkaError) -> None:
        fix = next(fix for kind, fix in REFUSALS.items() if isinstance(error, kind))
        super().__init__(f"topic {topic} refuses its records ({type(error).__name__}); {fix}")


class Commits:
    """Commits what the shards have applied, every `interval_s` or sooner.

    A commit that a topic refuses is retried until it succeeds; meanwhile only its partition waits. Any other failure
    ends the process, since only a restart finds out what was committed. `after_commit`: callbacks run after each
    commit, with the shard, the commit and the seconds that it took.
    """

    def __init__(
        self,
        new_committer: Callable[[int], "Committer"],
        *,
        changelogs: Changelogs,
        admin: Admin,
        clock: Clock,
        waits: Waits,
        interval_s: float,
    ) -> None:
        self.after_commit: list[Callable[[Shard, Commit, float], None]] = []
        self._new_committer = new_committer
        self._changelogs = changelogs
        self._admin = admin
        self._clock = clock
        self._waits = waits
        self._interval_s = interval_s
        self._loops: dict[int, _CommitLoop] = {}
        self._at_once = asyncio.Semaphore(MAX_COMMITS_AT_ONCE)

    async def fence(self, shard: Shard) -> None:
        """Fence the previous owner of a shard's partition, and start committing for the shard. Raises `KafkaError`."""
        partition = shard.partition
        loop = self._loops.get(partition)
        if loop is None:
            loop = self._loops[partition] = _CommitLoop(shard, self._new_committer(partition))
        async with loop.lock:
            await loop.committer.fence()
        if loop.task is None:
            loop.task = asyncio.create_task(guarded(f"committing partition {partition}", self._commit_forever(loop)))

    async def drop(self, partition: int) -> None:
        """Stop committing for a partition that was revoked."""
        await self._end(self._loops.pop(partition))

    async def stop(self) -> None:
        """Stop committing."""
        await asyncio.gather(*(self._end(loop) for loop in self._loops.values()))

    @staticmethod
    async def _end(loop: _CommitLoop) -> None:
        await cancel_and_wait([] if loop.task is None else [loop.task])
        await loop.committer.stop()

    def commit_soon(self, partition: int) -> None:
        """Commit a partition as soon as possible."""
        loop = self._loops[partition]
        loop.pending.set()
        loop.urgent.set()

    def commit_later(self, shard: Shard) -> None:
        """Commit a shard within the interval, unless there is nothing to commit."""
        loop = self._loops.get(shard.partition)
        if loop is not None and not loop.pending.is_set() and shard.has_moved:
            loop.pending.set()

    async def commit_all(self) -> None:
        """Commit what every shard has applied."""
        await asyncio.gather(*(self._commit(loop) for loop in self._loops.values()))

    async def _commit_forever(self, loop: _CommitLoop) -> None:
        while True:
            if loop.refused is None:
                await self._clock.wait(loop.pending)
                await self._clock.wait(loop.urgent, self._interval_s)
            else:
                await self._clock.sleep(BLOCKED_RETRY_S)
            loop.pending.clear()
            loop.urgent.clear()
            await self._commit(loop)
            self.commit_later(loop.shard)

    async def _commit(self, loop: _CommitLoop) -> None:
        shard, partition = loop.shard, loop.shard.partition
        async with loop.lock, self._at_once:
            committed = dict(shard.position.offsets)
            commit = loop.refused or shard.drain(self._changelogs.ends(partition))
            if commit is None:
                return
            started_s = self._clock.monotonic_s()
            try:
                with self._waits.on(f"the commit of partition {partition}", COMMIT_DEADLINE_S):
                    ends = await self._write(loop, commit, committed)
            except Exception as error:  # noqa: BLE001 - after any error, the transaction may not be committed
                _end_after(error, partition, self._clock.monotonic_s() - started_s)
            if ends is None:
                return
            for table, end in ends.items():
                self._changelogs.advance((self._changelogs.name(table), partition), end)
        seconds = self._clock.monotonic_s() - started_s
        for callback in self.after_commit:
            callback(shard, commit, seconds)
        for line in commit.log_lines:
            _log(line)

    async def _write(self, loop: _CommitLoop, commit: Commit, committed: Mapping[str, int]) -> dict[str, int] | None:
        """Write a commit. Returns the result of `Committer.commit`, or None when a topic refuses it.

        `committed`: the input offsets of the previous commit.
        """
        if loop.refused is not None:
            await self._expect_ends(loop.refused)
        try:
            ends = await loop.committer.commit(commit)
        except RefusedError as error:
            await self._block(loop, commit, committed, str(error))
            return None
        if loop.refused is not None:
            loop.refused = loop.shard.refusal = None
            log.info("partition %d is committed again", commit.partition)
        return ends

    async def _block(self, loop: _CommitLoop, commit: Commit, committed: Mapping[str, int], why: str) -> None:
        """Abort the transaction of a commit that a topic refuses, for a later retry.

        `committed`: the input offsets of the previous commit. Raises `FencedError` where they are no longer the latest.
        """
        partition = commit.partition
        await loop.committer.fence()
        if loop.refused is None:
            changelog = (self._changelogs.name(positions.TABLE), partition)
            last = (await self._admin.last_records([changelog])).get(changelog)
            offsets = {} if last is None or last.value is None else decode_position(last.value).offsets
            if offsets != committed:
                msg = f"the last commit of partition {partition} is not this worker's"
                raise FencedError(msg)
            log.error(
                "partition %d can't be committed: %s; it waits, and the others go on; trying again every %g s",
                *(partition, why, BLOCKED_RETRY_S),
            )
        loop.refused, loop.shard.refusal = commit, why

    async def _expect_ends(self, commit: Commit) -> None:
        """Correct the changelogs' end offsets in `commit`: aborted records take offsets, too. Raises `KafkaError`."""
        partition = commit.partition
        ends = await self._admin.end_offsets(self._changelogs.of([partition]))
        by_table = {self._changelogs.table(name): end for (name, _), end in ends.items()}
        ((key, value),) = commit.rows[positions.TABLE]
        position = decode_position(value or b"")
        commit.changelogs = position.changelogs = ends_after(by_table, commit.rows)
        commit.rows[positions.TABLE] = [(key, encode_position(position))]


def _end_after(error: Exception, partition: int, seconds: float) -> NoReturn:
    """End the process after a commit that failed after `seconds`."""
    if isinstance(error, FencedError):
        if seconds * 1_000 < TRANSACTION_TIMEOUT_MS:
            end_process(Accident.FENCED, f"partition {partition} was taken over by another worker", error)
        reason = f"the transaction of partition {partition} took {seconds:.0f} s, longer than the broker allows"
        end_process(Accident.TRANSACTION_ABORTED, reason, error)
    if isinstance(error, IdForgottenError):
        reason = (
            f"the broker no longer knows the transactional id of partition {partition}: nothing was committed with it "
            "for longer than transactional.id.expiration.ms"
        )
        end_process(Accident.ID_FORGOTTEN, reason, error)
    end_with(f"partition {partition} can't be committed", error)


def _log(line: LogLine) -> None:
    fields = ", ".join(f"{name}={value}" for name, value in line.fields.items())
    log.log(_LEVELS.get(line.level, logging.INFO), "%s: %s", line.event, fields)


class Committer:
    """Writes the commits of one partition.

    `topic` returns the full name of a topic, `changelog` that of a table's changelog.
    """

    def __init__(
        self,
        partition: int,
        *,
        kafka: Kafka,
        clock: Clock,
        app_id: str,
        topic: Callable[[str], str],
        changelog: Callable[[str], str],
    ) -> None:
        self.partition = partition
        self._kafka = kafka
        self._clock = clock
        self._app_id = app_id
        self._topic = topic
        self._changelog = changelog
        self._producer: TransactionalProducer | None = None

    async def fence(self) -> None:
        """Fence the previous owner's producer; the partition's changelogs and offsets don't change any more."""
        await self.stop()
        self._producer = self._kafka.transactional_producer(f"{self._app_id}-{self.partition}")
        await self._producer.start()

    async def commit(self, commit: Commit) -> dict[str, int]:
        """Write one transaction. Returns the last offset of each changelog, that of the commit marker, by table.

        Raises `FencedError` when the partition has another owner, and `RefusedError` when a topic refuses records and
        the transaction is not committed. After an error, `fence` must be called before the next commit.
        """
        assert self._producer is not None, "a partition is fenced before it commits"
        try:
            return await self._write(self._producer, commit)
        except Exception as error:
            cause = self._producer.cause_of(error)
            if isinstance(cause, TopicAuthorizationFailedError):
                raise RefusedError(", ".join(sorted(map(str, *cause.args))), cause) from error
            if cause is error:
                raise
            raise cause from error

    async def _write(self, producer: TransactionalProducer, commit: Commit) -> dict[str, int]:
        now_ms = self._clock.now_ms()
        changelogs = {table: (self._changelog(table), self.partition) for table in commit.rows}
        targets = dict.fromkeys((message.topic, message.partition) for message in commit.outputs)
        if commit.charges:
            targets[USAGE.name, self.partition] = None
        outputs = {(topic, partition): (self._topic(topic), partition) for topic, partition in targets}
        await producer.begin()
        producer.add_partitions((*changelogs.values(), *outputs.values()))
        row_writers = {table: _Writer(producer, changelog) for table, changelog in changelogs.items()}
        writers = {target: _Writer(producer, output) for target, output in outputs.items()}
        for table, rows in commit.rows.items():
            await row_writers[table].write((key, value, now_ms, _NO_HEADERS) for key, value in rows)
        for topic, partition, key, value, timestamp, headers in commit.outputs:
            await writers[topic, partition].write([(key, value, timestamp, list(headers))])
        if commit.charges:
            usage = writers[USAGE.name, self.partition]
            await usage.write((key, value, timestamp, _NO_HEADERS) for key, value, timestamp in commit.usage())
        for writer in (*row_writers.values(), *writers.values()):
            await writer.flush()
        # The broker refuses batches while the offsets are added to the transaction, so all are stored before.
        ends = {table: await writer.stored() for table, writer in row_writers.items()}
        for writer in writers.values():
            await writer.stored()
        for table, end in ends.items():
            if table in commit.changelogs and end + 1 != commit.changelogs[table]:
                msg = (
                    f"{self._changelog(table)} partition {self.partition} has records that are not this worker's: it "
                    f"would end at offset {end + 1}, not at {commit.changelogs[table]}; let nothing else write to it"
                )
                raise AccidentError(Accident.FOREIGN_RECORDS, msg)
        offsets = {(self._topic(topic), self.partition): offset for topic, offset in commit.offsets.items()}
        if offsets:
            await producer.send_offsets(offsets, self._app_id)
        await producer.commit()
        return ends

    async def stop(self) -> None:
        """Disconnect. The partition's next owner aborts an open transaction."""
        producer, self._producer = self._producer, None
        if producer is not None:
            await producer.stop()


class _Writer:
    """Writes the records of a transaction to one partition, in batches."""

    def __init__(self, producer: TransactionalProducer, partition: TopicPartition) -> None:
        self._producer = producer
        self._partition = partition
        self._batch = producer.create_batch()
        self._sent: list[tuple[Awaitable[Delivery], int]] = []

    async def write(self, records: Iterable[tuple[bytes | None, bytes | None, int, list[Header]]]) -> None:
        """Add records, given as key, value, timestamp and headers. Each full batch is sent."""
        append = self._batch.append
        for key, value, timestamp, headers in records:
            if append(key=key, value=value, timestamp=timestamp, headers=headers) is None:
                await self.flush()
                append = self._batch.append
                append(key=key, value=value, timestamp=timestamp, headers=headers)

    async def flush(self) -> None:
        """Send what was added; waits only until the batch before it is sent."""
        batch = self._batch
        count = batch.record_count()
        if not count:
            return
        batch.close()
        self._batch = self._producer.create_batch()
        self._sent.append((await self._producer.send_batch(batch, self._partition), count))

    async def stored(self) -> int:
        """Wait until everything sent is stored; returns the offset after the last record."""
        after = 0
        for delivery, count in self._sent:
            try:
                after = (await delivery).offset + count
            except tuple(REFUSALS) as error:
                raise RefusedError(self._partition[0], error) from error
        return after
