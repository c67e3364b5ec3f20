"""A log filter: the clients of a cluster that is away write hundreds of lines a second, which are all the same."""

import logging
import time
from collections.abc import Callable
from typing import Final

EVERY_S: Final = 10.0
"""How often a line of a client is written that repeats itself."""

CLIENTS: Final = ("aiokafka", "streams.engine.fetcher")
"""The loggers, by the beginning of their names, whose lines are written but every `EVERY_S`."""


class Repeats(logging.Filter):
    """Passes each warning and error of a client once in `EVERY_S`, whatever values are in it."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._now_s = now_s
        self._written_s: dict[tuple[str, int], float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a line is to be written."""
        if record.levelno < logging.WARNING or not record.name.startswith(CLIENTS):
            return True
        # Where it was logged: the message has its values in it, and may have lost its secrets, by now.
        statement, now_s = (record.pathname, record.lineno), self._now_s()
        before_s = self._written_s.get(statement)
        if before_s is not None and now_s < before_s + EVERY_S:
            return False
        self._written_s[statement] = now_s
        return True
