"""The time of a run: real time, or time-lapse from a time in the past."""

import time
from dataclasses import dataclass
from typing import Final

from streams.billing.minutes import floor_minute
from streams.limits import MINUTE_MS

REAL_MINUTE_S: Final = 60.0


def now_ms() -> int:
    """Return the system's time."""
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True)
class Clock:
    """Event time is `event_ms` when the system's time is `real_ms`. A minute of it lasts `minute_s` seconds."""

    event_ms: int
    real_ms: int
    minute_s: float

    @property
    def event_now_ms(self) -> int:
        """The event time now."""
        return self.event_ms + round((now_ms() - self.real_ms) * REAL_MINUTE_S / self.minute_s)

    def real_of(self, event_ms: int) -> float:
        """Return the system's time in ms at an event time."""
        return self.real_ms + (event_ms - self.event_ms) * self.minute_s / REAL_MINUTE_S

    def s_until(self, event_ms: int) -> float:
        """Return the seconds until an event time; 0 if it has passed."""
        return max(0.0, (self.real_of(event_ms) - now_ms()) / 1_000)


def minute_after(event_ms: int) -> int:
    """Return the first start of a minute after a time."""
    return floor_minute(event_ms) + MINUTE_MS
