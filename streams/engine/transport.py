"""Batches in: a Faust transport whose consumer hands over all records of one fetch of one partition as one event.

An event's value is a `Fetch`, which says from where to where the partition was read. That is more than its records
tell: commit markers and aborted records take offsets, too.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Coroutine, Mapping
from typing import Any, Final, NamedTuple

import faust
from faust.transport.drivers import aiokafka as driver
from faust.types.tuples import TP, ConsumerMessage

from streams.engine.merge import Record

FETCH_WAIT_S: Final = 0.1
"""How long to wait for records before telling of positions that moved without any."""

BROKER_WAIT_MS: Final = 50
"""How long the broker may wait for records. A partition drained meanwhile is only fetched again after that."""


class Fetch(NamedTuple):
    """What was read of one partition, from offset `start` up to `end`; `start` 0: from where its log begins.

    `generation`: of the assignment under which it was read. Asked for at any other moment than that of the reading, it
    could say that fresh records are stale, and recovery, which had sought before, would never read them again.
    """

    records: list[Record]
    start: int
    end: int
    generation: int


class _Thread(driver.AIOKafkaConsumerThread):
    """The consumer's thread: reads what is committed, and adds positions to records."""

    def _create_worker_consumer(self, transport: Any) -> Any:
        # Faust reads committed records only where it runs its own transactions; ours are our own.
        self.consumer.in_transaction = True
        try:
            consumer = super()._create_worker_consumer(transport)
        finally:
            self.consumer.in_transaction = False
        consumer._fetch_max_wait_ms = BROKER_WAIT_MS  # noqa: SLF001 - Faust has no setting for it
        return consumer

    async def _fetch_records(
        self,
        consumer: Any,
        active_partitions: Any,
        timeout: float | None = None,  # noqa: ASYNC109 - Faust's signature
        max_records: int | None = None,
    ) -> dict[TP, Fetch]:
        fetcher = consumer._fetcher  # noqa: SLF001 - Faust reads from it, too
        ends_s = time.monotonic() + (timeout or 0)
        while True:
            while fetcher._subscriptions.reassignment_in_progress:  # noqa: SLF001
                await fetcher._subscriptions.wait_for_assignment()  # noqa: SLF001
            # It changes while we wait; none active would mean all to aiokafka, paused ones too.
            if not active_partitions:
                return {}
            # Without a wait in between: a seek, or a new assignment, would make these a lie.
            before, generation = _positions(consumer), self.app.consumer_generation_id
            records = await super()._fetch_records(consumer, active_partitions, timeout=0, max_records=max_records)
            fetches = {
                TP(tp.topic, tp.partition): Fetch(records.get(tp, []), before.get(tp, 0), end, generation)
                for tp, end in _positions(consumer).items()
                if tp in records or before.get(tp, end) < end
            }
            left_s = ends_s - time.monotonic()
            if fetches or left_s <= 0 or not self.consumer.flow_active:
                return fetches
            waiter = fetcher._create_fetch_waiter()  # noqa: SLF001
            done, _ = await asyncio.wait([waiter], timeout=left_s)
            if not done:
                waiter.cancel()
                return {}
            waiter.result()


def _positions(consumer: Any) -> Mapping[Any, int]:
    """Where each assigned partition that has a position stands."""
    subscription = consumer._subscription.subscription  # noqa: SLF001 - `position()` waits, and asks one at a time
    assignment = subscription.assignment if subscription is not None else None
    if assignment is None or not assignment.active:
        return {}
    states = ((tp, assignment.state_value(tp)) for tp in assignment.tps)
    return {tp: state.position for tp, state in states if state is not None and state.has_valid_position}


class BatchConsumer(driver.Consumer):
    """A consumer that hands over whole fetches.

    `has_let_go`: the worker is stopping and has committed; a rebalance need not wait for it any more.
    """

    has_let_go = False

    def _new_consumer_thread(self) -> Any:
        return _Thread(self, loop=self.loop, beacon=self.beacon)

    async def getmany(self, timeout: float) -> AsyncIterator[tuple[TP, ConsumerMessage]]:  # noqa: ASYNC109 - Faust's
        """Give what was fetched, a message for each partition.

        What a rebalance interrupts is left out: recovery seeks to the committed offsets, so it is fetched again.
        """
        fetches, _active = await self._wait_next_records(min(timeout, FETCH_WAIT_S))
        for tp, fetch in (fetches or {}).items():
            if self.should_stop or not self.flow_active or self.app.consumer_generation_id != fetch.generation:
                return
            yield tp, _message(tp, fetch)

    async def threadsafe_partitions_revoked(self, receiver_loop: Any, revoked: Any) -> None:
        """Have the worker's thread give partitions up."""
        await self._until_let_go(super().threadsafe_partitions_revoked(receiver_loop, revoked))

    async def threadsafe_partitions_assigned(self, receiver_loop: Any, assigned: Any, generation_id: int = 0) -> None:
        """Have the worker's thread take partitions over."""
        await self._until_let_go(super().threadsafe_partitions_assigned(receiver_loop, assigned, generation_id))

    async def _until_let_go(self, call: Coroutine[Any, Any, None]) -> None:
        # A worker that has stopped answers no calls; waiting on, the consumer's thread would never end.
        answer = asyncio.ensure_future(call)
        while not answer.done():
            if self.has_let_go:
                answer.cancel()
                return
            await asyncio.wait([answer], timeout=FETCH_WAIT_S)
        answer.result()


def _message(tp: TP, fetch: Fetch) -> ConsumerMessage:
    # Recovery counts a changelog as read by offset, so the offset is that of the last place read, marker or record.
    return ConsumerMessage(
        tp.topic, tp.partition, fetch.end - 1, 0.0, 0, (), None, fetch, None, 0, 0, tp, generation_id=fetch.generation
    )


class BatchTransport(driver.Transport):
    """Faust's aiokafka transport with that consumer."""

    Consumer = BatchConsumer


class BatchSchema(faust.Schema):
    """Hands a message's value over as it is: decoding is the shard's."""

    def loads_key(self, app: Any, message: Any, **_: Any) -> Any:  # noqa: ARG002 - Faust's signature
        """Give the key as it is."""
        return message.key

    def loads_value(self, app: Any, message: Any, **_: Any) -> Any:  # noqa: ARG002 - Faust's signature
        """Give the value, a `Fetch`, as it is."""
        return message.value


class InputTopic(faust.Topic):
    """A topic whose queue keeps what it has when flow resumes.

    Faust clears queues then, records included that were fetched after its seek to the committed offsets. What is stale
    is known by its generation.
    """

    _queue: Any

    @property
    def queue(self) -> Any:
        """The queue of fetches on their way to the agent."""
        if self._queue is None:
            self._queue = self.app.FlowControlQueue(maxsize=self.app.conf.stream_buffer_maxsize, clear_on_resume=False)
        return self._queue
