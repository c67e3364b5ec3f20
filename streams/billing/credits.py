"""Credits: which parts of a window are owed back, and how they are cut into messages (rules B10, B13)."""

from collections.abc import Iterable
from typing import NamedTuple

from schemas.credits import Credit, CreditReason
from schemas.times import rfc3339
from streams.billing.minutes import cut, floor_minute
from streams.billing.usage import usage_id
from streams.billing.windows import OwedCredit, Window
from streams.limits import MAX_CREDITS_PER_WINDOW_PER_RECORD
from streams.meters import METERS

Stretch = tuple[int, int]
"""[start, end), in ms."""


class Piece(NamedTuple):
    """One credit to be sent."""

    start: int
    end: int
    reason: CreditReason
    note: str | None


def not_yet_owed(window: Window, start: int, end: int) -> list[Stretch]:
    """Return the parts of [`start`, `end`) that were billed and are not yet owed back, in order."""
    start, end = max(start, window.opened_at), min(end, window.billed_to)
    stretches = []
    for owed_start, owed_end in window.owed_back:
        if start < min(owed_start, end):
            stretches.append((start, min(owed_start, end)))
        start = max(start, owed_end)
    if start < end:
        stretches.append((start, end))
    return stretches


def union(stretches: Iterable[Stretch]) -> tuple[Stretch, ...]:
    """Return the stretches in order, with adjacent and overlapping ones merged."""
    merged: list[Stretch] = []
    for start, end in sorted(stretches):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return tuple(merged)


def next_credits(window: Window) -> tuple[list[Piece], tuple[OwedCredit, ...]]:
    """Return the oldest credits to send now, at most 60, each within a clock minute, and what remains owed."""
    pieces: list[Piece] = []
    remaining: list[OwedCredit] = []
    for owed in sorted(window.owed_credits):
        start = owed.start
        for piece_start, piece_end in cut(start, owed.end, MAX_CREDITS_PER_WINDOW_PER_RECORD - len(pieces)):
            pieces.append(Piece(piece_start, piece_end, owed.reason, owed.note))
            start = piece_end
        if start < owed.end:
            remaining.append(owed._replace(start=start))
    return pieces, tuple(remaining)


def credit_of(window: Window, piece: Piece, labels: dict[str, str] | None) -> Credit:
    """Return the credit for `piece`, which lies within one usage event of `window`."""
    meter = METERS[window.meter]
    billed_from = max(window.opened_at, floor_minute(piece.start))
    usage = usage_id(window.meter, window.owner_id, billed_from)
    start = rfc3339(piece.start)
    return Credit(
        id=f"{usage}:credit:{start}",
        usage_id=usage,
        reason=piece.reason,
        note=piece.note,
        type=meter.usage_type,
        org_id=window.org_id,
        deployment_id=window.deployment_id,
        replica_id=window.owner_id if meter.owner == "replica" else None,
        instance_id=window.owner_id if meter.owner == "instance" else None,
        window_id=window.window_id,
        profile=window.profile,
        quantity=window.quantity,
        labels=labels,
        interval_start=start,
        interval_end=rfc3339(piece.end),
        duration_ms=piece.end - piece.start,
    )
