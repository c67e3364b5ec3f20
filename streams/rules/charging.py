"""Windows opened, closed and billed, for replicas and instances alike (rules B1 to B12, B20 to B23, I2)."""

from collections.abc import Sequence

from schemas.times import rfc3339
from streams.billing.minutes import floor_minute
from streams.billing.prices import Prices
from streams.billing.windows import Held, Window, WindowMeter, close, finish, next_pieces
from streams.limits import HEARTBEAT_GRACE_MS, MINUTE_MS
from streams.rules.context import Switches, Turn
from streams.rules.decision import Charge, Note


def close_window(turn: Turn, window: Window) -> int:
    """End a window now; returns the time before which no later window of its meter may open (B1 D).

    A close before the watermark bills nothing more and is told as overbilled (B10).
    """
    ended_at = close(window, turn.now, turn.origin)
    if window.billed_until > ended_at:
        overbilled_ms = window.billed_until - ended_at
        turn.decision.counts["overbilled_ms", window.meter] += overbilled_ms
        fields: dict[str, str | int | None] = {
            "org_id": window.org_id,
            "window_id": window.window_id,
            "overbilled_ms": overbilled_ms,
        }
        turn.decision.notes.append(Note("warning", "window closed before its watermark", fields))
    turn.rows.closed[window.window_id] = window
    if finish(window, turn.now):
        turn.rows.drop_due(window)
    turn.decision.put(window)
    return max(ended_at, window.billed_until)


def settle(turn: Turn, window: Window) -> None:
    """Bill a window that has just closed for what is owed, in the transaction of the change itself (I2)."""
    if not window.done and turn.prices.at(window.profile, turn.now) is not None and bill(turn, window):
        turn.rows.drop_due(window)


def bill(turn: Turn, window: Window) -> bool:
    """Bill the next pieces of a priced window (B4 to B6); returns whether it is now done."""
    now = turn.now
    charges = turn.decision.charges
    for start, end in next_pieces(window, now):
        charges.append(Charge(window, start, end, now))
        window.billed_ms += end - start
        window.billed_until = end
    return finish(window, now)


def bill_due(turn: Turn, meter: WindowMeter) -> None:
    """Bill every unfinished window on `meter`'s side at a tick, in order of window id (B4), where B20 to B23 let it."""
    due = turn.rows.due(meter)
    if not due:
        return
    if meter is WindowMeter.DEDICATED and not turn.switches.live:
        if turn.switches.dry:
            _log_next(turn, due)
        return
    if _bill_each(turn, due, metered=meter is not WindowMeter.DEDICATED):
        due[:] = [window for window in due if not window.done]


def _bill_each(turn: Turn, due: Sequence[Window], *, metered: bool) -> bool:
    """Bill those of `due` that have a price; returns whether any is now done."""
    charges, put = turn.decision.charges, turn.decision.put
    minute = floor_minute(turn.now)
    owners = turn.rows.instances if metered else turn.rows.replicas
    priced: dict[str, bool] = {}
    done = False
    for window in due:
        # What this very tick closed and settled (I8) has had its 60 events (B5).
        settled = metered and window.closed_by is turn.origin
        if settled or (window.ended_at is None and window.billed_until >= minute):
            continue
        profile = window.profile
        if profile not in priced:
            priced[profile] = turn.prices.at(profile, turn.now) is not None
        if not priced[profile]:
            continue
        before, beat = window.billed_until, window.last_health_check
        in_time = beat is None or beat + HEARTBEAT_GRACE_MS >= minute
        if window.ended_at is None and in_time and before >= minute - MINUTE_MS:
            # What `bill` does, at a third of its cost, for nearly every window: one piece, up to this minute.
            charges.append(Charge(window, before, minute, turn.now))
            window.billed_ms += minute - before
            window.billed_until = minute
        else:
            done = bill(turn, window) or done
        if window.billed_until != before:
            put(window if window.ended_at is not None else owners[window.owner_id])
    return done


def held(window: Window, prices: Prices, switches: Switches, as_of_ms: int) -> Held | None:
    """Why `window` is not billed at the moment: the first that holds; None when it is done or simply not due (B9)."""
    if window.done:
        return None
    if prices.at(window.profile, as_of_ms) is None:
        return Held.UNPRICED
    if window.meter is not WindowMeter.DEDICATED:
        return None
    if not switches.billing_enabled:
        return Held.BILLING_OFF
    if switches.dry:
        return Held.DRY_RUN
    checked_at = window.last_health_check
    silent = checked_at is not None and as_of_ms >= checked_at + HEARTBEAT_GRACE_MS
    return Held.NO_HEARTBEAT if window.ended_at is None and silent else None


def _log_next(turn: Turn, due: Sequence[Window]) -> None:
    """Dry-run: the next event of each window goes to the log instead of Croesus (B21)."""
    for window in due:
        if turn.prices.at(window.profile, turn.now) is None:
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
