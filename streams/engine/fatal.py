"""Ending the process. A fault ends it at once; a restart continues from what was committed.

Faust logs many exceptions and continues. An exception that could skip a record must not reach it.
"""

import logging
import os
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Final, NoReturn

EXIT_FAULT: Final = 70
"""Exit code after a fault of this program or of the cluster: EX_SOFTWARE of sysexits.h."""

EXIT_FENCED: Final = 75
"""Exit code after another worker has taken over a partition, to be started again: EX_TEMPFAIL of sysexits.h."""

log = logging.getLogger(__name__)


def end_process(reason: str, code: int = EXIT_FAULT, error: BaseException | None = None) -> NoReturn:
    """Log the reason, and exit with `code`, without any clean-up that could commit or hide something."""
    log.critical("%s; exit code %d", reason, code, exc_info=error)
    logging.shutdown()
    os._exit(code)


async def guarded(what: str, work: Coroutine[Any, Any, None]) -> None:
    """Await `work`. An exception that it raises ends the process; the log line starts with `what`."""
    try:
        await work
    except Exception as error:  # noqa: BLE001 - to continue after any could skip a record
        end_process(f"{what}: {error!r}", error=error)


def leave_within(seconds: float, has_committed: Callable[[], bool]) -> None:
    """Exit after `seconds`, if a shutdown still waits then: for a rebalance, or a broker that does not answer.

    The code is 0 when everything applied is committed. Else it is a fault; the next owner applies the rest again.
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
