"""Fatal errors: they end the process. A restart continues from what was committed.

Faust logs many exceptions and continues. An exception that could skip a record must not reach Faust.
"""

import asyncio
import logging
import os
import threading
from collections.abc import Callable, Coroutine
from enum import Enum
from typing import Any, Final, NoReturn

from aiokafka.errors import KafkaError

from streams.engine.tasks import is_cancelled
from streams.settings import EXIT_WRONG_SETTING

EXIT_FAULT: Final = 70
"""Exit code after an error of this program: EX_SOFTWARE of sysexits.h."""

EXIT_RETRY: Final = 75
"""Exit code after an error from which a restart may recover: EX_TEMPFAIL of sysexits.h."""

EXIT_DAMAGED: Final = 78
"""Exit code after damage to the cluster's data that an operator must repair or accept: EX_CONFIG of sysexits.h."""

log = logging.getLogger(__name__)


class Accident(Enum):
    """The kinds of fatal errors, each with its name in the log and its exit code (`docs/operations.md`)."""

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
    """A fatal error of a known kind. Its message becomes the log line."""

    def __init__(self, accident: Accident, message: str) -> None:
        super().__init__(" ".join(message.split()))
        self.accident = accident


def end_process(accident: Accident, reason: str, error: BaseException | None = None) -> NoReturn:
    """Log the reason, and exit with the accident's code, without any clean-up, which could commit or hide something."""
    log.critical("%s: %s; exit code %d", accident.title, reason, accident.code, exc_info=error)
    logging.shutdown()
    os._exit(accident.code)


def end_with(what: str, error: BaseException) -> NoReturn:
    """End the process after an exception in `what`: with one log line for an accident, else with a traceback."""
    if isinstance(error, AccidentError):
        end_process(error.accident, str(error))
    accident = Accident.CLUSTER_ERROR if isinstance(error, KafkaError) else Accident.FAULT
    end_process(accident, f"{what}: {error!r}", error)


async def guarded(what: str, work: Coroutine[Any, Any, None]) -> None:
    """Await `work`. An exception that it raises ends the process; the log line names `what`.

    So does a cancellation of something that `work` awaits, unless this task itself was cancelled.
    """
    try:
        await work
    except asyncio.CancelledError as error:
        if not is_cancelled():
            end_with(what, error)
        raise
    except Exception as error:  # noqa: BLE001 - continuing after an error could skip a record
        end_with(what, error)


def exit_within(seconds: float, has_committed: Callable[[], bool]) -> None:
    """Exit after `seconds` if the process still runs: a shutdown may wait for a rebalance or an unreachable broker.

    The exit code is 0 if everything applied is committed. Otherwise the next owner applies the rest again.
    """

    def exit_now() -> None:
        if not has_committed():
            end_process(Accident.TIMED_OUT, f"the last commits were not done within {seconds:g} s of the stop")
        log.warning("stopped and committed, but still running after %g s: exiting", seconds)
        logging.shutdown()
        os._exit(0)

    timer = threading.Timer(seconds, exit_now)
    timer.daemon = True
    timer.start()
