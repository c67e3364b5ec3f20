"""Long waits: each is logged once, and ends the process after its deadline."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from streams.engine.fatal import Accident, AccidentError
from streams.engine.ports import Clock

LOG_S: Final = 10.0
"""A wait that takes longer is logged."""

_STEP_S: Final = 1.0

log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class Wait:
    """A wait for `what`, with its deadline and the time waited so far, in seconds."""

    what: str
    deadline_s: float
    waited_s: float = 0.0


class Waits:
    """The waits of a worker. Time during which the cluster does not respond (`is_answering`) is not counted."""

    def __init__(self, clock: Clock, is_answering: Callable[[], bool]) -> None:
        self._clock = clock
        self.is_answering = is_answering
        self._waits: set[Wait] = set()

    @contextmanager
    def on(self, what: str, deadline_s: float) -> Iterator[None]:
        """Register a wait for `what` while the context is open, for `deadline_s` at most."""
        wait = self.begin(what, deadline_s)
        try:
            yield
        finally:
            self.end(wait)

    def begin(self, what: str, deadline_s: float) -> Wait:
        """Register a wait for `what`, for `deadline_s` at most."""
        wait = Wait(what, deadline_s)
        self._waits.add(wait)
        return wait

    def end(self, wait: Wait | None) -> None:
        """Remove a wait. None, or a wait that was removed, is no error."""
        if wait in self._waits:
            self._waits.discard(wait)
            if wait.waited_s >= LOG_S:
                log.info("%s: done after about %d s", wait.what, wait.waited_s)

    async def watch(self) -> None:
        """Watch for ever. Raises `AccidentError` when a deadline has passed."""
        while True:
            await self._clock.sleep(_STEP_S)
            if not self.is_answering():
                continue
            for wait in list(self._waits):
                before_s, wait.waited_s = wait.waited_s, wait.waited_s + _STEP_S
                if wait.waited_s >= wait.deadline_s:
                    msg = f"{wait.what} is not done after {wait.deadline_s:g} s"
                    raise AccidentError(Accident.TIMED_OUT, msg)
                if before_s < LOG_S <= wait.waited_s:
                    log.warning("waiting for %s, for %d s at most", wait.what, wait.deadline_s)
