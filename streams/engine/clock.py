"""Ticks of the wall clock: each worker writes them for its own partitions, a moment after each minute starts."""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from typing import Any, Final

from aiokafka import AIOKafkaProducer

from schemas.clock import Tick
from streams.limits import MINUTE_MS, SECOND_MS
from topics.codec import encode

TICK_DELAY_MS: Final = 2 * SECOND_MS
"""How long after a minute starts its tick is written: what happened before is on its way."""

log = logging.getLogger(__name__)


def next_tick_ms(now_ms: int) -> int:
    """When the next tick is due."""
    return (now_ms - TICK_DELAY_MS) // MINUTE_MS * MINUTE_MS + MINUTE_MS + TICK_DELAY_MS


class WallClock:
    """Writes ticks to `topic`, for the partitions that `partitions` gives; one more from another worker is harmless."""

    def __init__(self, client_options: dict[str, Any], topic: str, partitions: Callable[[], Iterable[int]]) -> None:
        self._options = client_options
        self._topic = topic
        self._partitions = partitions
        self._producer: Any = None

    async def start(self) -> None:
        """Connect."""
        self._producer = AIOKafkaProducer(**self._options, enable_idempotence=True)
        await self._producer.start()

    async def run(self) -> None:
        """Write ticks for ever. Raises `KafkaError` when the cluster takes none."""
        value = encode(Tick(type="tick"))
        while True:
            now_ms = time.time_ns() // 1_000_000
            await asyncio.sleep((next_tick_ms(now_ms) - now_ms) / 1_000)
            now_ms = time.time_ns() // 1_000_000
            sent = [
                await self._producer.send(self._topic, value, partition=partition, timestamp_ms=now_ms)
                for partition in self._partitions()
            ]
            await asyncio.gather(*sent)

    async def stop(self) -> None:
        """Disconnect."""
        if self._producer is not None:
            await self._producer.stop()
