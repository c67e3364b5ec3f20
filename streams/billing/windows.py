"""Windows: the stretches of time in which a meter runs, and how much of them is billed (rules B1 to B12, I2).

A meter bound by heartbeats gives its windows a `last_health_check`; those of other meters have None.
Times are UTC milliseconds.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar, Final, NamedTuple

from schemas.credits import CreditReason
from streams.billing.minutes import cut, floor_minute
from streams.limits import HEARTBEAT_GRACE_MS, MAX_EVENTS_PER_WINDOW_PER_RECORD

DERIVED: Final = "derived"
"""Metadata key of a field that the `RowStore` derives and keeps in memory; it is not written to the changelog."""


class Held(StrEnum):
    """Why a window is not billed, or its credits are not sent, at the moment; the first that applies (contract)."""

    UNPRICED = "unpriced"
    BILLING_OFF = "billing_off"
    DRY_RUN = "dry_run"
    NO_HEARTBEAT = "no_heartbeat"


class Origin(NamedTuple):
    """The record that caused a change: its topic (without namespace), its offset in the org's partition, its time."""

    topic: str
    offset: int
    timestamp: int


class OwedCredit(NamedTuple):
    """[`start`, `end`) of a window, which was billed and is owed back, but not yet sent (B13)."""

    start: int
    end: int
    reason: CreditReason
    note: str | None


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """One stretch of time in which a meter ran.

    `meter` is a name in `METERS`. `billed_until` is the watermark: everything before it is billed. `billed_ms` sums up
    what was sent, independently of the watermark, so that the two can be compared (B12). `owed_back`: the stretches
    that were ever owed back, in order and without overlap; `owed_credits`: what of them is still to be sent (B13).
    `labels_json`: the labels of its deployment or instance as usage events write them; empty without any (C6).
    """

    TABLE: ClassVar[str] = "windows"

    org_id: str
    window_id: str
    meter: str
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
    owed_back: tuple[tuple[int, int], ...] = ()
    owed_credits: tuple[OwedCredit, ...] = ()
    labels_json: str = field(default="", init=False, repr=False, metadata={DERIVED: True})

    @property
    def row_id(self) -> str:
        """The row's id within its org and table."""
        return self.window_id

    @property
    def done(self) -> bool:
        """Closed, and nothing left to bill (B6)."""
        return self.ended_at is not None and self.billed_until >= self.ended_at

    @property
    def billed_to(self) -> int:
        """The end of what was billed: a window is billed without gaps from `opened_at` on (B13)."""
        return self.opened_at + self.billed_ms

    @property
    def credit_pending_ms(self) -> int:
        """The time owed back and not yet sent, in ms (B13)."""
        return sum(credit.end - credit.start for credit in self.owed_credits)

    @property
    def credited_ms(self) -> int:
        """The time for which credits were sent, in ms (B13)."""
        return sum(end - start for start, end in self.owed_back) - self.credit_pending_ms


class Figures(NamedTuple):
    """A window's time, in ms: running = billed + pending + forgiven − overbilled, to the millisecond (B12)."""

    running_ms: int
    billed_ms: int
    pending_ms: int
    forgiven_ms: int
    overbilled_ms: int

    @property
    def unexplained_ms(self) -> int:
        """The difference between the two sides of B12: not 0 is an error."""
        return self.running_ms - self.billed_ms - self.pending_ms - self.forgiven_ms + self.overbilled_ms


@dataclass(slots=True)
class Totals:
    """The sums of many windows' figures. `unexplained_ms` adds up absolute values, so that errors can't cancel out."""

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
        """Add a window's figures. Returns the absolute value of its unexplained time, in ms (B12)."""
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
    """Return up to when `window` may be billed at `now_ms` (B3): in whole minutes while open, exactly once closed."""
    heartbeat = window.last_health_check
    if window.ended_at is not None:
        end = window.ended_at if heartbeat is None else min(window.ended_at, heartbeat + HEARTBEAT_GRACE_MS)
    else:
        end = floor_minute(now_ms if heartbeat is None else min(now_ms, heartbeat + HEARTBEAT_GRACE_MS))
    return max(end, window.opened_at)


def next_pieces(window: Window, now_ms: int) -> Iterator[tuple[int, int]]:
    """Yield the pieces of `window` to bill at `now_ms`, oldest first, at most 60 (B4, B5)."""
    return cut(window.billed_until, horizon(window, now_ms), MAX_EVENTS_PER_WINDOW_PER_RECORD)


def is_settled(window: Window, now_ms: int) -> bool:
    """Return whether `window` is closed and everything up to its horizon is billed (B6)."""
    return window.ended_at is not None and window.billed_until >= horizon(window, now_ms)


def figures(window: Window, as_of_ms: int) -> Figures:
    """Return the figures of `window` as of `as_of_ms` (B12); forgiven and overbilled only once closed (B6, B10)."""
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
