"""Ctrl-C and SIGTERM, for coroutines that clean up after themselves."""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

AGAIN_S: Final = 35.0
"""Longer than cleaning up takes, of which the longest is to stop a worker."""


@asynccontextmanager
async def ended_by_signals() -> AsyncIterator[None]:
    """Cancel the task inside at Ctrl-C or SIGTERM.

    Cleaning up takes its time, so another changes nothing for `AGAIN_S`; then it does, as the first may have been lost.
    """
    task = asyncio.current_task()
    loop = asyncio.get_running_loop()
    next_s = loop.time()

    def end() -> None:
        nonlocal next_s
        if task is not None and loop.time() >= next_s:
            next_s = loop.time() + AGAIN_S
            task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, end)
    try:
        yield
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
