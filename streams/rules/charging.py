"""Windows opened, closed and billed, whatever their meter (rules B1 to B12, B20 to B23, I2)."""

from collections.abc import Sequence
from typing import Any

from schemas.times import rfc3339
from streams.billing.minutes import floor_minute
from streams.billing.prices import Prices
from streams.billing.windows import Held, Window, next_pieces
from streams.limits import HEARTBEAT_GRACE_MS, MINUTE_MS
from streams.meters import METERS, METERS_OF, OwnerKind
from streams.rules.context import Switches, Turn
from streams.rules.decision import Charge, Note
from streams.rules.rows import Deployment, Instance, Owner, Replica, WindowCount


def open_windows(turn: Turn, owner: Owner, state: str, specification: Deployment | Instance) -> None:
    """Open a window for each meter that runs in `state`, which `owner` has entered (B1, I2)."""
    for meter in METERS_OF[owner.OWNER]:
        quantity = meter.quantity(specification) if state in meter.runs_in else 0
        if not quantity:
            continue
        count = _count_of(owner, meter.name)
        opened_at = max(turn.now, count.free_at)
        number = count.opened + 1
        last = max(owner.last_health_check or 0, opened_at) if isinstance(owner, Replica) else None
        turn.store.add(
            Window(
                org_id=owner.org_id,
                window_id=meter.window_id(owner.row_id, number),
                meter=meter.name,
                owner_id=owner.row_id,
                deployment_id=owner.deployment_id if isinstance(owner, Replica) else None,
                profile=meter.profile(specification),
                quantity=quantity,
                opened_at=opened_at,
                billed_until=opened_at,
                last_health_check=last if meter.bound_by_heartbeats else None,
                opened_by=turn.origin,
            )
        )
        _set_count(turn, owner, count._replace(opened=number))


def close_windows(turn: Turn, owner: Owner) -> None:
    """Close the open windows of `owner`, which leaves its state; a meter that settles bills what is owed (I2).

    No later window of the same meter opens before the end or the watermark (B1 D).
    """
    for window in owner.open_windows:
        _close(turn, window)
        free_at = max(window.ended_at or 0, window.billed_until)
        _set_count(turn, owner, _count_of(owner, window.meter)._replace(free_at=free_at))
        if METERS[window.meter].settles and not window.done and _is_priced(turn, window.profile):
            bill(turn, window)


def _close(turn: Turn, window: Window) -> None:
    """End a window now, never before it opened (B1). A close before the watermark is overbilled (B10)."""
    ended_at = max(turn.now, window.opened_at)
    turn.store.close_window(window, ended_at, turn.origin)
    if window.billed_until > ended_at:
        overbilled_ms = window.billed_until - ended_at
        turn.decision.counts["overbilled_ms", window.meter] += overbilled_ms
        fields: dict[str, str | int | None] = {
            "org_id": window.org_id,
            "window_id": window.window_id,
            "overbilled_ms": overbilled_ms,
        }
        turn.decision.notes.append(Note("warning", "window closed before its watermark", fields))
    turn.store.finish(window, turn.now)


def bill(turn: Turn, window: Window) -> None:
    """Bill the next pieces of a priced window, and finish it when nothing is left (B4 to B6)."""
    for start, end in next_pieces(window, turn.now):
        turn.decision.charges.append(Charge(window, start, end, turn.now))
        turn.store.bill(window, end)
    turn.store.finish(window, turn.now)


def bill_due(turn: Turn, kind: OwnerKind) -> None:
    """Bill the windows of one kind of owner at a tick, in order of window id (B4), as B20 to B23 allow."""
    switched_off = _switched_off(turn.switches)
    due = turn.rows.due(kind)
    if turn.switches.dry:
        _log_next(turn, [window for window in due if window.meter in switched_off])
    minute = floor_minute(turn.now)
    charges, store = turn.decision.charges, turn.store
    priced: dict[str, bool] = {}
    for window in due:
        is_open = window.ended_at is None
        # A window that this very tick closed and settled (I8) has had its 60 events (B5).
        settled = window.closed_by is turn.origin and METERS[window.meter].settles
        if settled or window.meter in switched_off or (is_open and window.billed_until >= minute):
            continue
        profile = window.profile
        if profile not in priced:
            priced[profile] = _is_priced(turn, profile)
        if not priced[profile]:
            continue
        before, heartbeat = window.billed_until, window.last_health_check
        in_time = heartbeat is None or heartbeat + HEARTBEAT_GRACE_MS >= minute
        if is_open and in_time and before >= minute - MINUTE_MS:
            # What `bill` does for nearly every window, at a third of its cost: one piece, up to this minute.
            charges.append(Charge(window, before, minute, turn.now))
            store.bill(window, minute)
        else:
            bill(turn, window)


def held(window: Window, prices: Prices, switches: Switches, as_of_ms: int) -> Held | None:
    """Return why `window` is not billed at the moment, the first reason that applies; None: done, or not due (B9)."""
    if window.done:
        return None
    if prices.at(window.profile, as_of_ms) is None:
        return Held.UNPRICED
    meter = METERS[window.meter]
    if meter.switched and not switches.billing_enabled:
        return Held.BILLING_OFF
    if meter.switched and switches.dry:
        return Held.DRY_RUN
    checked_at = window.last_health_check
    silent = checked_at is not None and as_of_ms >= checked_at + HEARTBEAT_GRACE_MS
    return Held.NO_HEARTBEAT if window.ended_at is None and silent else None


def _switched_off(switches: Switches) -> frozenset[str]:
    """Return the meters that bill nothing for now (B20, B21, B23)."""
    return frozenset() if switches.live else frozenset(meter.name for meter in METERS.values() if meter.switched)


def _is_priced(turn: Turn, profile: str) -> bool:
    return turn.prices.at(profile, turn.now) is not None


def _count_of(owner: Owner, meter: str) -> WindowCount:
    return next((count for count in owner.window_counts if count.meter == meter), WindowCount(meter, 0, 0))


def _set_count(turn: Turn, owner: Owner, count: WindowCount) -> None:
    others: Any = (one for one in owner.window_counts if one.meter != count.meter)
    turn.store.change(owner, window_counts=(*others, count))


def _log_next(turn: Turn, due: Sequence[Window]) -> None:
    """Log the next event of each window instead of sending it: a dry run (B21)."""
    for window in due:
        if not _is_priced(turn, window.profile):
            continue
        piece = next(next_pieces(window, turn.now), None)
        if piece is None:
            continue
        start, end = piece
        fields: dict[str, str | int | None] = {
            "org_id": window.org_id,
            "window_id": window.window_id,
            "profile": window.profile,
            "quantity": window.quantity,
            "interval_start": rfc3339(start),
            "interval_end": rfc3339(end),
            "duration_ms": end - start,
        }
        turn.decision.notes.append(Note("info", "dry run: would send", fields))
