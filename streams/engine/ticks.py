"""The ticks of `OBOL_CLOCK=wall`: each worker writes them for its own partitions, 2 s after each minute starts."""

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Final

from aiokafka.errors import KafkaError

from schemas.clock import Tick
from streams.engine.ports import Clock, Producer
from streams.engine.tasks import cancel_and_wait
from streams.limits import MINUTE_MS, SECOND_MS
from topics.codec import encode

TICK_DELAY_MS: Final = 2 * SECOND_MS
"""How long after a minute starts its tick is written, so that earlier records arrive before it."""

log = logging.getLogger(__name__)


def next_tick_ms(now_ms: int) -> int:
    """Return the time of the first tick after `now_ms`."""
    return (now_ms - TICK_DELAY_MS) // MINUTE_MS * MINUTE_MS + MINUTE_MS + TICK_DELAY_MS


class TickWriter:
    """Writes ticks to `topic`, for the partitions that `partitions` returns.

    A second tick of the same minute, from another worker, does no harm. A tick that is not stored is logged; the next
    one has the same effect. So no partition waits for another's leader, and the worker not for the cluster.
    """

    def __init__(self, producer: Producer, clock: Clock, topic: str, partitions: Callable[[], Iterable[int]]) -> None:
        self._producer = producer
        self._clock = clock
        self._topic = topic
        self._partitions = partitions
        self._sending: dict[int, asyncio.Task[None]] = {}
        self._has_failed = False

    async def start(self) -> None:
        """Connect. Raises `KafkaError`."""
        await self._producer.start()

    async def run(self) -> None:
        """Write ticks for ever."""
        while True:
            now_ms = self._clock.now_ms()
            await self._clock.sleep((next_tick_ms(now_ms) - now_ms) / 1_000)
            await self._start_again()
            now_ms = self._clock.now_ms()
            value = encode(Tick(type="tick", at=now_ms))
            for partition in self._partitions():
                if partition not in self._sending:
                    self._sending[partition] = asyncio.create_task(self._send(partition, value, now_ms))

    async def _start_again(self) -> None:
        """Replace a producer that has failed: after some errors, it can't send any more."""
        if not self._has_failed or self._sending:
            return
        try:
            await self._producer.stop()
            await self._producer.start()
        except KafkaError as error:
            log.warning("ticks can't be written (%r); trying again in a minute", error)
        else:
            self._has_failed = False

    async def _send(self, partition: int, value: bytes, now_ms: int) -> None:
        try:
            await self._producer.send((self._topic, partition), value, now_ms)
        except Exception as error:  # noqa: BLE001 - the other partitions' ticks go on
            self._has_failed = True
            log.warning(
                "the tick of partition %d was not stored (%r); the next one has the same effect", partition, error
            )
        finally:
            del self._sending[partition]

    async def stop(self) -> None:
        """Disconnect."""
        await cancel_and_wait(self._sending.values())
        await self._producer.stop()
