"""Cancelling tasks."""

import asyncio
from collections.abc import Iterable
from typing import Any, Final

CANCEL_AGAIN_S: Final = 0.5
"""How soon a task that has lost its cancellation is cancelled again."""


async def cancel_and_wait(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel tasks, and wait until each has ended. Not for a task that waits for something when it is cancelled.

    They are cancelled again and again: a library that they wait in may lose a cancellation.
    """
    left = set(tasks)
    while left:
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=CANCEL_AGAIN_S)
