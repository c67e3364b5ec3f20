"""The worker's last words. A fault ends the process at once: a restart goes on from what was committed.

Faust logs and goes on after many an exception; nothing that could skip a record is left to that.
"""

import logging
import os
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Final, NoReturn

EXIT_FAULT: Final = 70
"""Exit code after a fault of ours, or of the cluster: EX_SOFTWARE of sysexits.h."""

EXIT_FENCED: Final = 75
"""Exit code when another worker has taken over a partition: EX_TEMPFAIL of sysexits.h. A restart is all it takes."""

log = logging.getLogger(__name__)


def end_process(reason: str, code: int = EXIT_FAULT, error: BaseException | None = None) -> NoReturn:
    """Say why, and be gone: no cleaning up that could commit, or hide, anything."""
    log.critical("%s; exit code %d", reason, code, exc_info=error)
    logging.shutdown()
    os._exit(code)


async def guarded(what: str, work: Coroutine[Any, Any, None]) -> None:
    """Await `work`; an exception that leaves it ends the process, named as `what`."""
    try:
        await work
    except Exception as error:  # noqa: BLE001 - whatever it is, going on would skip something
        end_process(f"{what}: {error!r}", error=error)


def leave_within(seconds: float, has_committed: Callable[[], bool]) -> None:
    """End the process after `seconds` at the latest, whatever a shutdown waits for: a rebalance, a broker that is away.

    With code 0 when all that was applied is committed by then; else as a fault, and a successor applies the rest again.
    """

    def leave() -> None:
        if not has_committed():
            end_process(f"the last commits did not happen within {seconds:g} s")
        log.warning("stopped and committed, but not yet gone after %g s: leaving", seconds)
        logging.shutdown()
        os._exit(0)

    timer = threading.Timer(seconds, leave)
    timer.daemon = True
    timer.start()
