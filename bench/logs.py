"""What a worker's log says."""

import re
from datetime import datetime
from typing import Final

from bench.child import BenchError

# Log messages of the engine.
_ASSIGNED: Final = "are assigned to this worker, in generation"
_ACTIVE: Final = "are active"
_LOGGED_AT: Final = re.compile(r"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3})\]")
_PARTITIONS: Final = re.compile(r"partitions \[([\d, ]*)\]")


def is_active(log: str) -> bool:
    """Return whether partitions are active that were assigned after the last assignment."""
    return log.rfind(_ACTIVE) > log.rfind(_ASSIGNED) >= 0


def assigned_partitions(log: str) -> int:
    """Return the number of partitions of the last assignment."""
    found = [line for line in log.splitlines() if _ASSIGNED in line]
    match = _PARTITIONS.search(found[-1]) if found else None
    return len(match[1].split(", ")) if match and match[1] else 0


def restoring_s(log: str) -> float:
    """Return the seconds from the last assignment until the partitions were active, from a worker's log."""
    assigned = active = None
    for line in log.splitlines():
        if _ASSIGNED in line:
            assigned = _logged_at(line)
        elif _ACTIVE in line:
            active = _logged_at(line)
    if assigned is None or active is None or active < assigned:
        raise BenchError("the worker's log does not say when its partitions were assigned and active")
    return (active - assigned).total_seconds()


def _logged_at(line: str) -> datetime:
    found = _LOGGED_AT.match(line)
    if found is None:
        msg = f"a line of the worker's log has no timestamp: {line}"
        raise BenchError(msg)
    return datetime.strptime(found[1], "%Y-%m-%d %H:%M:%S,%f")  # noqa: DTZ007 - only differences are used
