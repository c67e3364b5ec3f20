"""Ctrl-C and SIGTERM, for coroutines that clean up after themselves."""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


@asynccontextmanager
async def ended_by_signals() -> AsyncIterator[None]:
    """Cancel the task inside at the first Ctrl-C or SIGTERM; later ones change nothing, cleaning up takes its time."""
    task = asyncio.current_task()
    loop = asyncio.get_running_loop()
    asked = False

    def end() -> None:
        nonlocal asked
        if not asked and task is not None:
            asked = True
            task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, end)
    try:
        yield
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
