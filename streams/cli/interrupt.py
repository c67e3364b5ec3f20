"""Ctrl-C, for what talks to a cluster: it lets go of it, but nobody waits for that for long."""

import asyncio
import os
import signal
import threading
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, Final, TypeVar

from streams.cli.failure import EXIT_INTERRUPTED

LEAVE_WITHIN_S: Final = 5.0
"""After Ctrl-C; letting go takes a fraction of a second, unless a library loses the cancellation, or waits for ever."""

Result = TypeVar("Result")


def run_until_interrupted(work: Coroutine[Any, Any, Result]) -> Result:
    """Carry out `work`. Raises `KeyboardInterrupt` when Ctrl-C has ended it.

    If it is still there after `LEAVE_WITHIN_S`, or at a second Ctrl-C, the process ends, with the same exit code.
    """
    asked = False
    leaving = threading.Timer(LEAVE_WITHIN_S, os._exit, (EXIT_INTERRUPTED,))
    leaving.daemon = True

    async def interruptible() -> Result:
        task = asyncio.current_task()

        def interrupt() -> None:
            nonlocal asked
            if asked:
                os._exit(EXIT_INTERRUPTED)
            asked = True
            leaving.start()
            if task is not None:
                task.cancel()

        # In another thread than the first, and on Windows, there are no such handlers; asyncio's own has to do.
        with suppress(NotImplementedError, RuntimeError, ValueError):
            asyncio.get_running_loop().add_signal_handler(signal.SIGINT, interrupt)
        return await work

    try:
        return asyncio.run(interruptible())
    except asyncio.CancelledError:
        if asked:
            raise KeyboardInterrupt from None
        raise
    finally:
        leaving.cancel()
