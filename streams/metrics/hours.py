"""Usage events and running replicas of a partition in each of the last 24 hours, counted from its windows.

The windows are rows, so these numbers survive restarts, and nothing is written for them. A window that has left its
table is missing: only hours for which all windows are kept (`OBOL_RETENTION_H`) are counted.
"""

from dataclasses import dataclass, field
from itertools import accumulate
from typing import Final, NamedTuple

from streams.billing.windows import Window
from streams.limits import HOUR_MS, MINUTE_MS
from streams.meters import METERS

HOURS: Final = 24

_MINUTES: Final = HOUR_MS // MINUTE_MS
_OF_REPLICAS: Final = frozenset(meter.name for meter in METERS.values() if meter.owner == "replica")


class Hour(NamedTuple):
    """An hour from `start_ms` on.

    `events`: usage events of clock minutes in it that were sent so far. `running`: dedicated replicas that were running
    at its end, in the current hour as of now.
    """

    start_ms: int
    events: int
    running: int


@dataclass(slots=True)
class Hours:
    """The last 24 hours as of `as_of_ms`, the current one included. Each window costs the same, however long it ran."""

    as_of_ms: int
    kept_ms: int
    """How long windows are kept after their end."""
    _start_ms: int = field(init=False)
    _running: list[int] = field(init=False, default_factory=lambda: [0] * (HOURS + 1))
    """How the number of running replicas changes from hour to hour."""
    _billed_whole: list[int] = field(init=False, default_factory=lambda: [0] * (HOURS + 1))
    """How the number of windows that are billed for the whole hour changes from hour to hour."""
    _events: list[int] = field(init=False, default_factory=lambda: [0] * HOURS)
    """The events of all other windows."""

    def __post_init__(self) -> None:
        """Derive the start of the first hour."""
        self._start_ms = self.as_of_ms - self.as_of_ms % HOUR_MS - (HOURS - 1) * HOUR_MS

    def add(self, window: Window) -> None:
        """Count a window."""
        start_ms, opened_at, ended_at, billed_to = self._start_ms, window.opened_at, window.ended_at, window.billed_to
        if billed_to > start_ms and billed_to > opened_at:
            self._add_events(max(0, (opened_at - start_ms) // MINUTE_MS), -((start_ms - billed_to) // MINUTE_MS))
        if (ended_at is None or ended_at > start_ms) and window.meter in _OF_REPLICAS:
            self._running[self._first_after(opened_at)] += 1
            if ended_at is not None:
                self._running[self._first_after(ended_at)] -= 1

    def _add_events(self, first: int, end: int) -> None:
        """Count one event for each minute from `first` until `end`, which are numbered from the start."""
        end = min(end, HOURS * _MINUTES)
        if first >= end:
            return
        first_hour, last_hour = first // _MINUTES, (end - 1) // _MINUTES
        if first_hour == last_hour:
            self._events[first_hour] += end - first
            return
        self._events[first_hour] += _MINUTES - first % _MINUTES
        self._events[last_hour] += end - last_hour * _MINUTES
        self._billed_whole[first_hour + 1] += 1
        self._billed_whole[last_hour] -= 1

    def _first_after(self, at_ms: int) -> int:
        """Return the number of the first hour whose end, or now in the current one, is not before `at_ms`."""
        return HOURS if at_ms > self.as_of_ms else max(0, (at_ms - self._start_ms - 1) // HOUR_MS)

    def items(self) -> list[Hour]:
        """Return the hours, oldest first."""
        first_kept_ms = max(0, self.as_of_ms - self.kept_ms)
        return [
            Hour(start_ms, events + _MINUTES * whole, running)
            for start_ms, events, whole, running in zip(
                range(self._start_ms, self._start_ms + HOURS * HOUR_MS, HOUR_MS),
                self._events,
                accumulate(self._billed_whole),
                accumulate(self._running),
                strict=False,
            )
            if start_ms >= first_kept_ms
        ]
