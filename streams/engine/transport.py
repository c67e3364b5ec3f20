"""A Faust transport whose consumer delivers all records of one fetch of one partition as one event.

An event's value is a `Fetch`, which has the range of offsets that was read. Its records are not enough for that:
commit markers and aborted records have offsets, too.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Coroutine, Mapping
from typing import Any, Final

import faust
from aiokafka import AIOKafkaConsumer, TopicPartition
from faust.transport.drivers import aiokafka as driver
from faust.types.tuples import TP, ConsumerMessage

from streams.engine.fetcher import BoundedFetcher
from streams.engine.merge import Damage
from streams.engine.ports import Fetch

FETCH_WAIT_S: Final = 0.25
"""How long to wait for records before a fetch that has only markers is delivered."""

BROKER_WAIT_MS: Final = 50
"""How long the broker may hold a fetch without records; aiokafka sends the next request only after the response."""


IDLE_WAIT_MS: Final = 250
"""The same for a request of all partitions: a record ends it at once. Other requests of the connection wait for it."""


class _Thread(driver.AIOKafkaConsumerThread):
    """The consumer's thread. It reads committed records, and adds positions to them. `reading`: with this consumer."""

    reading: AIOKafkaConsumer | None = None

    consumer: "BatchConsumer"

    def _create_worker_consumer(self, transport: driver.Transport) -> AIOKafkaConsumer:
        # Faust reads `read_committed` only when it runs the transactions itself.
        self.consumer.in_transaction = True
        try:
            consumer = super()._create_worker_consumer(transport)
        finally:
            self.consumer.in_transaction = False
        consumer._fetch_max_wait_ms = BROKER_WAIT_MS  # noqa: SLF001 - Faust has no setting for it
        self.reading = consumer
        return consumer

    async def _fetch_records(
        self,
        consumer: AIOKafkaConsumer,
        active_partitions: set[TP],
        timeout: float | None = None,  # noqa: ASYNC109 - Faust's signature
        max_records: int | None = None,
    ) -> Mapping[tuple[str, int], Fetch]:
        subscription = consumer._subscription  # noqa: SLF001 - it has the positions, too
        fetcher = consumer._fetcher  # noqa: SLF001 - it is ours
        assert isinstance(fetcher, BoundedFetcher)
        fetcher.is_contiguous, fetcher.bare_records = self.consumer.is_contiguous, True
        fetcher.idle_wait_ms = IDLE_WAIT_MS
        ends_s = time.monotonic() + (timeout or 0)
        while True:
            while subscription.reassignment_in_progress:
                await subscription.wait_for_assignment()
            # The set changes while this waits. aiokafka takes an empty one for all partitions, paused ones too.
            if not active_partitions:
                return {}
            # Nothing is awaited from here to the next positions: a seek or an assignment in between would falsify them.
            before, generation = _positions(consumer), self.app.consumer_generation_id
            records = await super()._fetch_records(consumer, active_partitions, timeout=0, max_records=max_records)
            fetches: dict[tuple[str, int], Fetch] = {
                TP(tp.topic, tp.partition): Fetch(records.get(tp, []), before.get(tp, 0), end, generation)
                for tp, end in _positions(consumer).items()
                if tp in records or before.get(tp, end) < end
            }
            for tp, damage in fetcher.take_changes().items():
                self.consumer.loop.call_soon_threadsafe(self.consumer.on_damage, tp, damage, generation)
            left_s = ends_s - time.monotonic()
            if fetches or left_s <= 0 or not self.consumer.flow_active:
                return fetches
            if fetcher.has_unread(active_partitions):
                await asyncio.sleep(0)
                continue
            waiter = fetcher._create_fetch_waiter()  # noqa: SLF001 - done at any response, markers too
            done, _ = await asyncio.wait([waiter], timeout=left_s)
            if not done:
                waiter.cancel()
                return {}
            waiter.result()


def _positions(consumer: AIOKafkaConsumer) -> Mapping[TopicPartition, int]:
    """Return the position of each assigned partition that has one."""
    subscription = consumer._subscription.subscription  # noqa: SLF001 - `position()` waits, and returns one at a time
    assignment = subscription.assignment if subscription is not None else None
    if assignment is None or not assignment.active:
        return {}
    states = ((tp, assignment.state_value(tp)) for tp in assignment.tps)
    return {tp: state.position for tp, state in states if state is not None and state.has_valid_position}


class BatchConsumer(driver.Consumer):
    """A consumer that delivers whole fetches.

    `has_released`: the worker is stopping and has committed, so a rebalance need not wait for it.
    """

    has_released = False
    reader: _Thread | None = None

    def is_contiguous(self, topic: str) -> bool:
        """Return whether a topic is not compacted, so that no offset of it may be missing."""
        raise NotImplementedError

    def on_damage(self, partition: TopicPartition, damage: Damage | None, generation: int) -> None:
        """Called when a partition can't be read or, with None, can be read again."""
        raise NotImplementedError

    def _new_consumer_thread(self) -> driver.AIOKafkaConsumerThread:
        self.reader = _Thread(self, loop=self.loop, beacon=self.beacon)
        return self.reader

    def check_group(self) -> None:
        """Raise the error that keeps this worker out of the consumer group for good. Faust does not ask for it."""
        consumer = None if self.reader is None else self.reader.reading
        coordinator = None if consumer is None else consumer._coordinator  # noqa: SLF001 - `getmany` checks it
        if coordinator is not None and not self.should_stop:
            coordinator.check_errors()

    async def getmany(self, timeout: float) -> AsyncIterator[tuple[TP, ConsumerMessage]]:  # noqa: ASYNC109 - Faust's
        """Yield what was fetched, one message for each partition.

        A rebalance discards the rest: recovery seeks to the committed offsets, so it is fetched again.
        """
        fetches, _active = await self._wait_next_records(min(timeout, FETCH_WAIT_S))
        for tp, fetch in (fetches or {}).items():
            if self.should_stop or not self.flow_active or self.app.consumer_generation_id != fetch.generation:
                return
            yield tp, _message(tp, fetch)

    async def threadsafe_partitions_revoked(self, receiver_loop: asyncio.AbstractEventLoop, revoked: set[TP]) -> None:
        """Run `on_partitions_revoked` in the worker's thread."""
        await self._until_released(super().threadsafe_partitions_revoked(receiver_loop, revoked))

    async def threadsafe_partitions_assigned(
        self, receiver_loop: asyncio.AbstractEventLoop, assigned: set[TP], generation_id: int = 0
    ) -> None:
        """Run `on_partitions_assigned` in the worker's thread."""
        await self._until_released(super().threadsafe_partitions_assigned(receiver_loop, assigned, generation_id))

    async def _until_released(self, call: Coroutine[Any, Any, None]) -> None:
        # A worker that has stopped does not respond to calls: without this, the consumer's thread would never end.
        response = asyncio.ensure_future(call)
        while not response.done():
            if self.has_released:
                response.cancel()
                return
            await asyncio.wait([response], timeout=FETCH_WAIT_S)
        response.result()


def _message(tp: TP, fetch: Fetch) -> ConsumerMessage:
    # Recovery compares offsets with the end of a changelog, which may be a marker; so this is the last offset read.
    return ConsumerMessage(
        tp.topic, tp.partition, fetch.end - 1, 0.0, 0, (), None, fetch, None, 0, 0, tp, generation_id=fetch.generation
    )


class BatchTransport(driver.Transport):
    """Faust's aiokafka transport with `BatchConsumer`."""

    Consumer = BatchConsumer


class BatchSchema(faust.Schema):
    """Passes keys and values on undecoded; the shard decodes them."""

    def loads_key(self, app: Any, message: Any, **_: Any) -> Any:  # noqa: ARG002 - Faust's signature
        """Return the key as it is."""
        return message.key

    def loads_value(self, app: Any, message: Any, **_: Any) -> Any:  # noqa: ARG002 - Faust's signature
        """Return the value, a `Fetch`, as it is."""
        return message.value


class InputTopic(faust.Topic):
    """A topic whose queue keeps its fetches when flow resumes.

    Faust clears a queue then, including what was fetched after its seek to the committed offsets. The engine discards
    stale fetches by their generation instead.
    """

    def clone(self, *, is_iterator: bool | None = None, **options: Any) -> Any:
        """Copy the topic; a copy that an agent reads from gets a queue that is not cleared."""
        if is_iterator:
            maxsize = self.app.conf.stream_buffer_maxsize
            options.setdefault("queue", self.app.FlowControlQueue(maxsize=maxsize, clear_on_resume=False))
        return super().clone(is_iterator=is_iterator, **options)
