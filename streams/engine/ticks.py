"""The ticks of `OBOL_CLOCK=wall`: each worker writes them for its own partitions, 2 s after each minute starts."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

from schemas.clock import Tick
from streams.engine.ports import Clock, Producer
from streams.limits import MINUTE_MS, SECOND_MS
from topics.codec import encode

TICK_DELAY_MS: Final = 2 * SECOND_MS
"""How long after a minute starts its tick is written, so that what happened before it arrives before it."""


def next_tick_ms(now_ms: int) -> int:
    """Give the time of the first tick after `now_ms`."""
    return (now_ms - TICK_DELAY_MS) // MINUTE_MS * MINUTE_MS + MINUTE_MS + TICK_DELAY_MS


class TickWriter:
    """Writes ticks to `topic`, for the partitions that `partitions` gives.

    A second tick of the same minute, from another worker, does no harm.
    """

    def __init__(self, producer: Producer, clock: Clock, topic: str, partitions: Callable[[], Iterable[int]]) -> None:
        self._producer = producer
        self._clock = clock
        self._topic = topic
        self._partitions = partitions

    async def start(self) -> None:
        """Connect. Raises `KafkaError`."""
        await self._producer.start()

    async def run(self) -> None:
        """Write ticks for ever. Raises `KafkaError` when the cluster takes none."""
        while True:
            now_ms = self._clock.now_ms()
            await self._clock.sleep((next_tick_ms(now_ms) - now_ms) / 1_000)
            now_ms = self._clock.now_ms()
            value = encode(Tick(type="tick", at=now_ms))
            await asyncio.gather(
                *(self._producer.send((self._topic, partition), value, now_ms) for partition in self._partitions())
            )

    async def stop(self) -> None:
        """Disconnect."""
        await self._producer.stop()
