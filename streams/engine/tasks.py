"""Waiting that always ends: for something to happen, and for tasks to be gone."""

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Final

CANCEL_AGAIN_S: Final = 0.5
"""How soon a task that has lost its cancellation is cancelled again."""


async def happens(event: asyncio.Event, within_s: float | None = None) -> None:
    """Wait until `event` is set, for `within_s` at most where given.

    Not with `asyncio.wait_for`: in Python 3.11 that loses a cancellation which comes together with the event.
    """
    with suppress(TimeoutError):
        async with asyncio.timeout(within_s):
            await event.wait()


async def ended(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel tasks and wait until they are gone. Not for tasks that have something to wait for when they are cancelled.

    They are cancelled again and again, as a library that they wait in may lose a cancellation, too.
    """
    left = set(tasks)
    while left:
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=CANCEL_AGAIN_S)
