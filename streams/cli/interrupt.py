"""Ctrl-C cancels a command, and ends the process if the cancellation takes too long."""

import asyncio
import os
import signal
import threading
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, Final, TypeVar

from streams.cli.failure import EXIT_INTERRUPTED

CANCEL_TIMEOUT_S: Final = 5.0
"""From Ctrl-C to the end of the process. Needed where a library swallows the cancellation or never returns."""

Result = TypeVar("Result")


def run_until_interrupted(work: Coroutine[Any, Any, Result]) -> Result:
    """Run `work`. Ctrl-C cancels it, and then `KeyboardInterrupt` is raised.

    The process exits with `EXIT_INTERRUPTED` at a second Ctrl-C, or `CANCEL_TIMEOUT_S` after the first.
    """
    interrupted = False
    forced_exit = threading.Timer(CANCEL_TIMEOUT_S, os._exit, (EXIT_INTERRUPTED,))
    forced_exit.daemon = True

    async def interruptible() -> Result:
        task = asyncio.current_task()

        def interrupt() -> None:
            nonlocal interrupted
            if interrupted:
                os._exit(EXIT_INTERRUPTED)
            interrupted = True
            forced_exit.start()
            if task is not None:
                task.cancel()

        # Only the main thread can set a handler, and not on Windows. Elsewhere asyncio's default handling applies.
        with suppress(NotImplementedError, RuntimeError, ValueError):
            asyncio.get_running_loop().add_signal_handler(signal.SIGINT, interrupt)
        return await work

    try:
        return asyncio.run(interruptible())
    except asyncio.CancelledError:
        if interrupted:
            raise KeyboardInterrupt from None
        raise
    finally:
        forced_exit.cancel()
