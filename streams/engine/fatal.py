"""Ending the process. The accident decides the exit code; a restart continues from what was committed.

Faust logs many exceptions and continues. An exception that could skip a record must not reach it.
"""

import logging
import os
import threading
from collections.abc import Callable, Coroutine
from enum import Enum
from typing import Any, Final, NoReturn

from aiokafka.errors import KafkaError

from streams.settings import EXIT_WRONG_SETTING

EXIT_FAULT: Final = 70
"""Exit code after a fault of this program: EX_SOFTWARE of sysexits.h."""

EXIT_RETRY: Final = 75
"""Exit code after what a restart may well recover from: EX_TEMPFAIL of sysexits.h."""

EXIT_DAMAGED: Final = 78
"""Exit code after damage to the cluster's data that an operator must decide about: EX_CONFIG of sysexits.h."""

log = logging.getLogger(__name__)


class Accident(Enum):
    """Why a worker ends by itself. `docs/operations.md` has a row for each name, with its exit code."""

    WRONG_SETTING = "wrong setting", EXIT_WRONG_SETTING
    OTHER_INSTALLATION = "other installation", EXIT_WRONG_SETTING
    PARTITIONS_CHANGED = "partitions changed", EXIT_WRONG_SETTING
    INPUT_RESET = "input reset", EXIT_DAMAGED
    CHANGELOG_DAMAGED = "changelog damaged", EXIT_DAMAGED
    MISPLACED_ROW = "misplaced row", EXIT_DAMAGED
    UNREADABLE_ROW = "unreadable row", EXIT_FAULT
    NEWER_FORMAT = "newer format", EXIT_RETRY
    FENCED = "partition taken over", EXIT_RETRY
    ID_FORGOTTEN = "transactional id forgotten", EXIT_RETRY
    TRANSACTION_ABORTED = "transaction aborted", EXIT_RETRY
    FOREIGN_RECORDS = "foreign records", EXIT_RETRY
    UNREACHABLE = "cluster unreachable", EXIT_RETRY
    CLUSTER_ERROR = "cluster error", EXIT_RETRY
    TIMED_OUT = "wait timed out", EXIT_RETRY
    RECORDS_LOST = "records lost", EXIT_RETRY
    NOT_CO_PARTITIONED = "not co-partitioned", EXIT_RETRY
    FAULT = "fault", EXIT_FAULT

    def __init__(self, title: str, code: int) -> None:
        self.title = title
        self.code = code


class AccidentError(RuntimeError):
    """An accident; the message is the line that the log gets."""

    def __init__(self, accident: Accident, message: str) -> None:
        super().__init__(" ".join(message.split()))
        self.accident = accident


def end_process(accident: Accident, reason: str, error: BaseException | None = None) -> NoReturn:
    """Log the reason, and exit with the accident's code, without any clean-up that could commit or hide something."""
    log.critical("%s: %s; exit code %d", accident.title, reason, accident.code, exc_info=error)
    logging.shutdown()
    os._exit(accident.code)


def end_with(what: str, error: BaseException) -> NoReturn:
    """End the process after an exception in `what`: one line for an accident, a traceback for anything else."""
    if isinstance(error, AccidentError):
        end_process(error.accident, str(error))
    accident = Accident.CLUSTER_ERROR if isinstance(error, KafkaError) else Accident.FAULT
    end_process(accident, f"{what}: {error!r}", error)


async def guarded(what: str, work: Coroutine[Any, Any, None]) -> None:
    """Await `work`. An exception that it raises ends the process; the log line names `what`."""
    try:
        await work
    except Exception as error:  # noqa: BLE001 - to continue after any could skip a record
        end_with(what, error)


def leave_within(seconds: float, has_committed: Callable[[], bool]) -> None:
    """Exit after `seconds`, if a shutdown still waits then: for a rebalance, or a broker that does not answer.

    The code is 0 when everything applied is committed. Else the next owner applies the rest again.
    """

    def leave() -> None:
        if not has_committed():
            end_process(Accident.TIMED_OUT, f"the last commits were not done within {seconds:g} s of the stop")
        log.warning("stopped and committed, but not yet gone after %g s: leaving", seconds)
        logging.shutdown()
        os._exit(0)

    timer = threading.Timer(seconds, leave)
    timer.daemon = True
    timer.start()
