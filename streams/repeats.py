"""A log filter for repeated lines: while a cluster is unreachable, its clients log the same line hundreds of times."""

import logging
import time
from collections.abc import Callable
from typing import Final

EVERY_S: Final = 10.0
"""How often a repeated line of a client is logged."""

CLIENTS: Final = ("aiokafka", "streams.engine.fetcher")
"""The prefixes of the loggers' names to which this applies."""


class Repeats(logging.Filter):
    """Passes each warning and error statement of a client once in `EVERY_S`, with any values."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._now_s = now_s
        self._written_s: dict[tuple[str, int], float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether to log a line."""
        if record.levelno < logging.WARNING or not record.name.startswith(CLIENTS):
            return True
        # The statement, not the message: by now the message has values in it, and secrets may be redacted.
        statement, now_s = (record.pathname, record.lineno), self._now_s()
        before_s = self._written_s.get(statement)
        if before_s is not None and now_s < before_s + EVERY_S:
            return False
        self._written_s[statement] = now_s
        return True
