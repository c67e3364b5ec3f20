"""Cancels tasks."""

import asyncio
from collections.abc import Iterable
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
