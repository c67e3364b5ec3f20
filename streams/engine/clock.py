"""Implements the clock port with the system's clocks and asyncio's timers."""

import asyncio
import time
from contextlib import suppress

from streams.engine import ports


class SystemClock(ports.Clock):
    """Real time."""

    def monotonic_s(self) -> float:
        return time.monotonic()

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def wait(self, event: asyncio.Event, timeout_s: float | None = None) -> None:
        # Not with `asyncio.wait_for`: in Python 3.11 it loses a cancellation that occurs together with the event.
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await event.wait()
