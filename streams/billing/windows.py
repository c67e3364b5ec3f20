"""Windows: the stretches of time a meter runs, and what of them is billed (rules B1 to B12, I2).

A window of a dedicated replica is capped by heartbeats; a window of an instance is not (`last_health_check` is None).
Times are UTC milliseconds.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, NamedTuple

from streams.billing.minutes import cut, floor_minute
from streams.limits import HEARTBEAT_GRACE_MS, MAX_EVENTS_PER_WINDOW_PER_RECORD


class WindowMeter(StrEnum):
    """What a window measures."""

    DEDICATED = "dedicated"
    GPU = "gpu"
    DISK = "disk"


class Held(StrEnum):
    """Why an unfinished window is not billed at the moment; the first that holds is shown (contract)."""

    UNPRICED = "unpriced"
    BILLING_OFF = "billing_off"
    DRY_RUN = "dry_run"
    NO_HEARTBEAT = "no_heartbeat"


class Origin(NamedTuple):
    """The record that caused something: its topic (without namespace), its offset in the org's partition, its time."""

    topic: str
    offset: int
    timestamp: int


@dataclass(slots=True, eq=False)
class Window:
    """One stretch of a meter. An open one is kept in its owner's row, a closed one is a row of its own.

    `billed_until` is the watermark: all before it is billed. `billed_ms` adds up what was sent, apart from it, so that
    the two can be held against each other (B12).
    """

    TABLE: ClassVar[str] = "windows"

    org_id: str
    window_id: str
    meter: WindowMeter
    owner_id: str
    deployment_id: str | None
    profile: str
    quantity: int
    opened_at: int
    billed_until: int
    last_health_check: int | None
    opened_by: Origin
    ended_at: int | None = None
    closed_by: Origin | None = None
    billed_ms: int = 0

    @property
    def row_id(self) -> str:
        """Its id within its org and table."""
        return self.window_id

    @property
    def done(self) -> bool:
        """Closed, and nothing left to bill (B6)."""
        return self.ended_at is not None and self.billed_until >= self.ended_at


class Figures(NamedTuple):
    """A window's time, in ms: running = billed + pending + forgiven − overbilled, to the millisecond (B12)."""

    running_ms: int
    billed_ms: int
    pending_ms: int
    forgiven_ms: int
    overbilled_ms: int

    @property
    def unexplained_ms(self) -> int:
        """What B12 leaves over: 0, or an alarm."""
        return self.running_ms - self.billed_ms - self.pending_ms - self.forgiven_ms + self.overbilled_ms


@dataclass(slots=True)
class Totals:
    """The figures of many windows, added up; `unexplained_…` of each, so that one too many can't hide one too few."""

    running_ms: int = 0
    billed_ms: int = 0
    pending_ms: int = 0
    forgiven_ms: int = 0
    overbilled_ms: int = 0
    unexplained_ms: int = 0
    unexplained_windows: int = 0

    @property
    def figures(self) -> Figures:
        """The sums, as those of one window."""
        return Figures(self.running_ms, self.billed_ms, self.pending_ms, self.forgiven_ms, self.overbilled_ms)

    def add(self, window: Window, as_of_ms: int) -> int:
        """Count a window in; returns how many ms of it are unexplained, their sign dropped (B12)."""
        # Unpacked and written out: there may be a million windows.
        running_ms, billed_ms, pending_ms, forgiven_ms, overbilled_ms = figures(window, as_of_ms)
        self.running_ms += running_ms
        self.billed_ms += billed_ms
        self.pending_ms += pending_ms
        self.forgiven_ms += forgiven_ms
        self.overbilled_ms += overbilled_ms
        unexplained_ms = abs(running_ms - billed_ms - pending_ms - forgiven_ms + overbilled_ms)
        if unexplained_ms:
            self.unexplained_ms += unexplained_ms
            self.unexplained_windows += 1
        return unexplained_ms


def horizon(window: Window, now_ms: int) -> int:
    """How far `window` may be billed at `now_ms` (B3): whole minutes while open, to the millisecond once closed."""
    beat = window.last_health_check
    if window.ended_at is not None:
        end = window.ended_at if beat is None else min(window.ended_at, beat + HEARTBEAT_GRACE_MS)
    else:
        end = floor_minute(now_ms if beat is None else min(now_ms, beat + HEARTBEAT_GRACE_MS))
    return max(end, window.opened_at)


def beat(window: Window, now_ms: int) -> None:
    """A heartbeat at `now_ms` (B2): never backwards."""
    if window.last_health_check is None or now_ms > window.last_health_check:
        window.last_health_check = now_ms


def close(window: Window, now_ms: int, closed_by: Origin) -> int:
    """End `window` at `now_ms`, never before it opened (B1); returns its end. The watermark stays (B10)."""
    window.ended_at = max(now_ms, window.opened_at)
    window.closed_by = closed_by
    return window.ended_at


def next_pieces(window: Window, now_ms: int) -> Iterator[tuple[int, int]]:
    """The pieces of `window` to bill at `now_ms`, oldest first, at most 60 (B4, B5)."""
    return cut(window.billed_until, horizon(window, now_ms), MAX_EVENTS_PER_WINDOW_PER_RECORD)


def finish(window: Window, now_ms: int) -> bool:
    """Whether a closed window has nothing left to bill; then its watermark moves to its end, never backwards (B6)."""
    if window.ended_at is None or window.billed_until < horizon(window, now_ms):
        return False
    window.billed_until = max(window.billed_until, window.ended_at)
    return True


def figures(window: Window, as_of_ms: int) -> Figures:
    """Where the time of `window` stands as of `as_of_ms` (B12); forgiven and overbilled from the close on (B6, B10)."""
    if window.ended_at is None:
        until = max(as_of_ms, window.billed_until)
        return Figures(until - window.opened_at, window.billed_ms, until - window.billed_until, 0, 0)
    end = horizon(window, window.ended_at)
    return Figures(
        running_ms=window.ended_at - window.opened_at,
        billed_ms=window.billed_ms,
        pending_ms=max(0, end - window.billed_until),
        forgiven_ms=window.ended_at - end,
        overbilled_ms=max(0, window.billed_until - window.ended_at),
    )
