"""aiokafka's fetcher, with records decoded by `batches`: a partition that can't be read does not stop the others.

Importing this module installs it in every consumer of the process.
"""

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Any, Final

from aiokafka import TopicPartition
from aiokafka.consumer import consumer
from aiokafka.consumer.fetcher import Fetcher, FetchError, OffsetResetStrategy
from aiokafka.errors import (
    ConsumerStoppedError,
    CorruptRecordException,
    KafkaError,
    OffsetOutOfRangeError,
    TopicAuthorizationFailedError,
)
from aiokafka.errors import for_code as error_of

from streams.engine.batches import FetchedRecords
from streams.engine.merge import Damage

if TYPE_CHECKING:
    from collections.abc import Callable

RETRY_S: Final = 5.0
"""How long after damage was found its offset is fetched again: another replica may have become the leader."""

SILENT_S: Final = 30.0
"""How long the broker may return errors, or no records although the log has some, before that counts as damage."""

NEXT_RECORD_WAIT_S: Final = 1.0
"""How often a wait for one record looks whether the consumer was stopped."""

_PREFERRED_REPLICA_VERSION: Final = 11
"""From this version on, a fetch response has one more field."""

log = logging.getLogger(__name__)


class _Fetched(FetchedRecords):
    """Fetched records that are not taken yet. `assignment`: that at the time of the fetch."""

    def __init__(
        self, partition: TopicPartition, *args: Any, assignment: Any, backoff_s: float, **options: Any
    ) -> None:
        super().__init__(partition, *args, **options)
        self._assignment = assignment
        self._state = assignment.state_value(partition)
        self._until_s = time.monotonic() + backoff_s

    def calculate_backoff(self) -> float:
        """Return how many seconds the broker's other partitions wait for these records to be taken."""
        return max(0.0, self._until_s - time.monotonic())

    def is_next(self) -> bool:
        """Return whether these are the next records of the partition."""
        return bool(
            self._assignment.active and self._state.has_valid_position and self._state.position == self.position
        )

    @property
    def is_paused(self) -> bool:
        """Whether the partition is paused."""
        return bool(self._state.paused)

    def consume(self, max_records: int | None) -> list[Any]:
        """Take records, and advance the consumer's position."""
        records = self.take(max_records)
        self._state.consumed_to(self.position)
        return records


class _Damaged:
    """Replaces fetched records, so that the partition is not fetched for some time."""

    def __init__(self) -> None:
        self._until_s = time.monotonic() + RETRY_S

    def calculate_backoff(self) -> float:
        """Return 0: no other partition waits."""
        return 0.0

    def is_over(self) -> bool:
        """Return whether the partition should be fetched again."""
        return time.monotonic() >= self._until_s


class BoundedFetcher(Fetcher):
    """Fetches records in bounded memory.

    `is_contiguous` says of a topic that no offset may be missing; `bare_records` as `bare` in `FetchedRecords`.
    `idle_wait_ms`: how long the broker may hold a request when there is nothing to take, if longer than otherwise.
    `changes`: what was found since the last time that they were taken out: damage, or None for a partition that can be
    read again.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        self.is_contiguous: Callable[[str], bool] = lambda _: False
        self.bare_records = False
        self.idle_wait_ms = 0
        self.changes: dict[TopicPartition, Damage | None] = {}
        self._damaged: set[TopicPartition] = set()
        self._silent_since_s: dict[TopicPartition, float] = {}
        self._ends: dict[TopicPartition, int] = {}
        super().__init__(*args, **options)

    @property
    def _fetch_max_wait_ms(self) -> int:
        # Read for each request. With nothing to take, it is for all partitions, so none waits for its response.
        return self._wait_ms if self._records else max(self._wait_ms, self.idle_wait_ms)

    @_fetch_max_wait_ms.setter
    def _fetch_max_wait_ms(self, wait_ms: int) -> None:
        self._wait_ms = wait_ms

    def take_changes(self) -> dict[TopicPartition, Damage | None]:
        """Return the changes since the last call."""
        changes, self.changes = self.changes, {}
        return changes

    def has_unread(self, partitions: Any) -> bool:
        """Return whether records of `partitions` were fetched and are not taken yet."""
        return any(isinstance(self._records.get(tp), _Fetched) for tp in partitions)

    async def fetched_records(
        self,
        partitions: Any,
        timeout: float = 0,  # noqa: ASYNC109 - aiokafka's signature
        max_records: int | None = None,
    ) -> dict[TopicPartition, list[Any]]:
        """Return records of `partitions` (none given: of all), after `timeout` seconds at most."""
        until_s = time.monotonic() + timeout
        while True:
            if self._subscriptions.reassignment_in_progress:
                await self._subscriptions.wait_for_assignment()
            found = self._take(partitions, max_records)
            left_s = until_s - time.monotonic()
            if found or self._closed or left_s <= 0:
                return found
            if self.has_unread(partitions or list(self._records)):
                await asyncio.sleep(0)
                continue
            waiter = self._create_fetch_waiter()
            done, _ = await asyncio.wait([waiter], timeout=left_s)
            if not done:
                waiter.cancel()
                return {}
            waiter.result()

    async def next_record(self, partitions: Any) -> Any:
        """Return the next record of `partitions` (none given: of all). Raises `ConsumerStoppedError` after the stop."""
        while not self._closed:
            for (record,) in (await self.fetched_records(partitions, NEXT_RECORD_WAIT_S, 1)).values():
                return record
        raise ConsumerStoppedError

    def _take(self, partitions: Any, max_records: int | None) -> dict[TopicPartition, list[Any]]:
        """Take what was fetched. Raises the `KafkaError` of a fetch, where nothing comes before it."""
        found: dict[TopicPartition, list[Any]] = {}
        left = max_records
        for tp, fetched in list(self._records.items()):
            if partitions and tp not in partitions:
                if not self._subscriptions.is_assigned(tp):
                    del self._records[tp]
                continue
            if isinstance(fetched, FetchError) and found:
                break
            if records := self._take_of(tp, fetched, left):
                found[tp] = records
                left = None if left is None else left - len(records)
                if left == 0:
                    break
        return found

    def _take_of(self, tp: TopicPartition, fetched: Any, max_records: int | None) -> list[Any]:
        if isinstance(fetched, FetchError):
            self._forget(tp)
            fetched.check_raise()
        if isinstance(fetched, _Damaged):
            if fetched.is_over():
                self._forget(tp)
            return []
        if not fetched.is_next():
            self._forget(tp)
            return []
        if fetched.is_paused:
            return []
        records: list[Any] = fetched.consume(max_records)
        if records:
            self._note(tp, None)
        if fetched.damage is not None:
            self._set_damage(tp, fetched.damage)
        elif fetched.is_done:
            self._ends[tp] = fetched.position
            self._forget(tp)
        return records

    def _forget(self, tp: TopicPartition) -> None:
        """Drop a partition's records, so that it is fetched again."""
        del self._records[tp]
        self._notify(self._wait_consume_future)

    def _set_damage(self, tp: TopicPartition, damage: Damage) -> None:
        self._records[tp] = _Damaged()
        self._note(tp, damage)

    def _note(self, tp: TopicPartition, damage: Damage | None) -> None:
        if damage is not None:
            self._damaged.add(tp)
        elif tp not in self._damaged:
            return
        else:
            self._damaged.discard(tp)
        self.changes[tp] = damage

    async def _proc_fetch_request(self, assignment: Any, node_id: int, request: Any) -> bool:
        """Send a fetch request; returns whether there is anything to take."""
        try:
            return await self._fetch(assignment, node_id, request)
        except asyncio.CancelledError:
            # `close` awaits the tasks that it has cancelled; a raised cancellation would look like its own.
            return False

    async def _fetch(self, assignment: Any, node_id: int, request: Any) -> bool:
        try:
            response = await self._client.send(node_id, request)
        except KafkaError as error:
            log.error("broker %s can't be read from: %r", node_id, error)  # noqa: TRY400 - the client's own line
            await asyncio.sleep(self._retry_backoff)
            return False
        if not assignment.active:
            return False
        asked = {
            TopicPartition(topic, number): offset
            for topic, partitions in request.topics
            for number, offset, _ in partitions
        }
        has_news = has_failed = False
        for topic, partitions in response.topics:
            for number, code, end, *more in partitions:
                tp = TopicPartition(topic, number)
                state = assignment.state_value(tp)
                if not state.has_valid_position or state.position != asked[tp]:
                    continue
                if code:
                    has_failed = True
                    has_news |= self._failed(tp, state, error_of(code))
                    continue
                state.highwater, state.lso, state.timestamp = end, more[0], int(time.time() * 1_000)
                aborted = more[2] if response.API_VERSION >= _PREFERRED_REPLICA_VERSION else more[-2]
                has_news |= self._received(tp, assignment, more[-1], aborted)
        if has_failed:
            await asyncio.sleep(self._retry_backoff)
        return has_news

    def _received(self, tp: TopicPartition, assignment: Any, content: bytes, aborted: Any) -> bool:
        """Keep what was fetched of a partition; returns whether there is anything to take."""
        state = assignment.state_value(tp)
        end = state.lso if self._isolation_level else state.highwater
        if not content and state.position < end:
            return self._is_silent(tp, state.position, f"the broker returns no records, but the log goes on to {end}")
        self._silent_since_s.pop(tp, None)
        if not content:
            self._note(tp, None)
            return tp in self.changes
        self._records[tp] = _Fetched(
            tp,
            content,
            aborted,
            state.position,
            starts_batch=self._ends.get(tp) == state.position,
            contiguous=self.is_contiguous(tp.topic),
            bare=self.bare_records,
            assignment=assignment,
            backoff_s=self._prefetch_backoff,
        )
        return True

    def _failed(self, tp: TopicPartition, state: Any, error: type[KafkaError]) -> bool:
        """Handle the error of a partition that was not fetched; return whether there is anything to take."""
        if error is OffsetOutOfRangeError:
            if self._default_reset_strategy == OffsetResetStrategy.NONE:
                self._set_error(tp, OffsetOutOfRangeError({tp: state.position}))
                return True
            log.warning("%s partition %d has no record at offset %d any more", *tp, state.position)
            state.await_reset(self._default_reset_strategy)
            return False
        if error is TopicAuthorizationFailedError:
            self._set_error(tp, TopicAuthorizationFailedError(tp.topic))
            return True
        if error is CorruptRecordException:
            self._set_damage(tp, Damage(state.position, "the broker can't read it (CORRUPT_MESSAGE)"))
            return True
        self._client.force_metadata_update()
        return self._is_silent(tp, state.position, f"the broker returns {error.__name__}")

    def _is_silent(self, tp: TopicPartition, offset: int, reason: str) -> bool:
        """Return whether a partition has returned no records for so long that it counts as damaged."""
        since_s = self._silent_since_s.setdefault(tp, time.monotonic())
        silent_s = time.monotonic() - since_s
        if silent_s < SILENT_S:
            return False
        self._set_damage(tp, Damage(offset, f"for {silent_s:.0f} s, {reason}", may_pass=True))
        return True


consumer.Fetcher = BoundedFetcher  # type: ignore[misc]  # aiokafka has no other place for it
