"""Cancellation by Ctrl-C and SIGTERM, for coroutines that clean up."""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

REPEAT_AFTER_S: Final = 35.0
"""Longer than the clean-up takes, which may have to stop a worker."""


@asynccontextmanager
async def ended_by_signals() -> AsyncIterator[None]:
    """Cancel the current task at Ctrl-C or SIGTERM.

    Further signals are ignored for `REPEAT_AFTER_S`, while the task cleans up. After that a signal cancels the task
    again, since a library may have swallowed the first cancellation.
    """
    task = asyncio.current_task()
    loop = asyncio.get_running_loop()
    next_s = loop.time()

    def end() -> None:
        nonlocal next_s
        if task is not None and loop.time() >= next_s:
            next_s = loop.time() + REPEAT_AFTER_S
            task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, end)
    try:
        yield
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
