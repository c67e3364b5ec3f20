"""Cancels tasks, and stops clients that have tasks."""

import asyncio
from collections.abc import Awaitable, Iterable
from typing import Any, Final

CANCEL_AGAIN_S: Final = 0.5
"""How soon a task that has lost its cancellation is cancelled again."""


async def cancel_and_wait(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel tasks, and wait until each has ended. Not for tasks that wait in their clean-up.

    They are cancelled repeatedly, since a library in which they wait may lose a cancellation.
    """
    left = set(tasks)
    while left:
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=CANCEL_AGAIN_S)


def is_cancelled() -> bool:
    """Return whether the current task was cancelled; if not, a `CancelledError` comes from something that it awaits."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def stop_client(stop: Awaitable[None]) -> None:
    """Await the stop of a client of aiokafka, which may raise the cancellation of its own tasks."""
    try:
        await stop
    except asyncio.CancelledError:
        if is_cancelled():
            raise
