"""Opens, closes, bills and credits the windows of all meters (rules B1 to B13, B20 to B23, I2, U1)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from schemas.credits import CreditReason
from schemas.times import rfc3339
from streams.billing.credits import credit_of, next_credits, not_yet_owed
from streams.billing.minutes import floor_minute
from streams.billing.money import to_atto
from streams.billing.prices import Prices
from streams.billing.windows import Held, OwedCredit, Window, next_pieces
from streams.limits import DAY_MS, HEARTBEAT_GRACE_MS, MINUTE_MS
from streams.meters import METERS, METERS_OF, OwnerKind
from streams.rules.context import Switches, Turn
from streams.rules.decision import LogLine
from streams.rules.rows import Deployment, Instance, Owner, Replica, WindowCount
from topics.catalogue import CREDITS


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
    """Close the open windows of `owner`, which leaves its state; a meter that settles bills them up to now (I2).

    No later window of the same meter opens before the end or the watermark (B1 D).
    """
    for window in owner.open_windows:
        _close(turn, window)
        free_at = max(window.ended_at or 0, window.billed_until)
        _set_count(turn, owner, _count_of(owner, window.meter)._replace(free_at=free_at))
        price = _price(turn, window.profile)
        if METERS[window.meter].settles and not window.done and price is not None:
            bill(turn, window, price)


def _close(turn: Turn, window: Window) -> None:
    """Close a window now, never before it opened (B1). What was billed after that is owed back (B10, B13)."""
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
        turn.decision.log_lines.append(LogLine("warning", "window closed before its watermark", fields))
        owe(turn, window, ended_at, window.billed_to, "closed_late")
    turn.store.finish(window, turn.now)


def bill(turn: Turn, window: Window, price: int) -> None:
    """Bill the next pieces of a window at `price` (atto per hour), and finish it when nothing is left (B4 to B6)."""
    ms_by_day: dict[int, int] = {}
    for start, end in next_pieces(window, turn.now):
        turn.decision.charges.append((window, start, end, turn.now))
        turn.store.bill(window, end)
        ms_by_day[start // DAY_MS] = ms_by_day.get(start // DAY_MS, 0) + end - start
    for number, ms in ms_by_day.items():
        unit_ms = ms * window.quantity
        day, usage_type = _day_and_type(window.meter, number * DAY_MS)
        turn.store.add_usage(window.org_id, day, usage_type, window.profile, unit_ms, unit_ms * price)
    turn.store.finish(window, turn.now)


def owe(turn: Turn, window: Window, start: int, end: int, reason: CreditReason, note: str | None = None) -> int:
    """Owe back the part of [`start`, `end`) that was billed and is not yet owed, and send what may be sent (B13).

    Returns the length of that part, in ms.
    """
    stretches = not_yet_owed(window, start, end)
    if stretches:
        turn.store.owe(window, [OwedCredit(*stretch, reason, note) for stretch in stretches])
        if window.meter not in _switched_off(turn.switches):
            send_credits(turn, window)
    return sum(stretch_end - stretch_start for stretch_start, stretch_end in stretches)


def send_credits(turn: Turn, window: Window) -> None:
    """Send the oldest credits of a window, while its profile has a price (B13)."""
    price = _price(turn, window.profile)
    if price is None:
        return
    pieces, remaining = next_credits(window)
    labels = turn.rows.labels_of(window)
    for piece in pieces:
        turn.decision.send(CREDITS.name, window.org_id, turn.now, credit_of(window, piece, labels))
        unit_ms = (piece.end - piece.start) * window.quantity
        day, usage_type = _day_and_type(window.meter, piece.start)
        turn.store.add_credit(window.org_id, day, usage_type, window.profile, unit_ms, unit_ms * price)
        turn.decision.counts["credited_ms", window.meter] += piece.end - piece.start
    turn.store.credit(window, remaining)


def bill_due(turn: Turn, kind: OwnerKind) -> None:
    """Bill the windows of one kind of owner at a tick, in order of window id (B4), as B20 to B23 allow."""
    switched_off = _switched_off(turn.switches)
    due = turn.rows.due(kind)
    if turn.switches.dry:
        _log_next(turn, [window for window in due if window.meter in switched_off])
    now, origin = turn.now, turn.origin
    minute = floor_minute(now)
    charges, store = turn.decision.charges, turn.store
    whole = minute - MINUTE_MS
    sums: dict[str, _Sum] = {}
    found = _Sum("", None)
    profile, quantity, first = None, 0, 0
    for window in due:
        is_open = window.ended_at is None
        # A window that this same tick closed and settled (I8) has used its 60 events (B5).
        settled = window.closed_by is origin and METERS[window.meter].settles
        if settled or window.meter in switched_off or (is_open and window.billed_until >= minute):
            continue
        if window.profile != profile or window.quantity != quantity:
            # Most windows are like the one before. A run of such windows is added up by the number of its charges.
            found.unit_ms += (len(charges) - first) * MINUTE_MS * quantity
            profile, quantity, first = window.profile, window.quantity, len(charges)
            found = sums.get(profile) or sums.setdefault(profile, _Sum(window.meter, _price(turn, profile)))
        if found.price is None:
            continue
        before, heartbeat = window.billed_until, window.last_health_check
        in_time = heartbeat is None or heartbeat + HEARTBEAT_GRACE_MS >= minute
        if is_open and in_time and before >= whole:
            # The same as `bill` at a third of its cost, for the usual case: one piece, up to this minute.
            charges.append((window, before, minute, now))
            store.bill(window, minute)
            if before != whole:
                found.unit_ms -= (before - whole) * quantity
        else:
            charged = len(charges)
            bill(turn, window, found.price)
            first += len(charges) - charged
    found.unit_ms += (len(charges) - first) * MINUTE_MS * quantity
    for profile, found in sums.items():
        if found.price is not None and found.unit_ms:
            day, usage_type = _day_and_type(found.meter, whole)
            store.add_usage(turn.org_id, day, usage_type, profile, found.unit_ms, found.unit_ms * found.price)


@dataclass(slots=True)
class _Sum:
    """The usage of one minute that a tick bills, of all windows of a profile: unit-ms, at `price` (None: unpriced)."""

    meter: str
    price: int | None
    unit_ms: int = 0


def credit_due(turn: Turn, kind: OwnerKind) -> None:
    """Send the pending credits of one kind of owner at a tick, in order of window id (B13)."""
    switched_off = _switched_off(turn.switches)
    for window in list(turn.rows.crediting(kind)):
        if window.meter not in switched_off:
            send_credits(turn, window)


def held(window: Window, prices: Prices, switches: Switches, as_of_ms: int) -> Held | None:
    """Return the first reason why `window` is not billed, or its credits are not sent; else None (B9, B13)."""
    if window.done and not window.owed_credits:
        return None
    if prices.at(window.profile, as_of_ms) is None:
        return Held.UNPRICED
    meter = METERS[window.meter]
    if meter.switched and not switches.billing_enabled:
        return Held.BILLING_OFF
    if meter.switched and switches.dry:
        return Held.DRY_RUN
    heartbeat = window.last_health_check
    silent = heartbeat is not None and as_of_ms >= heartbeat + HEARTBEAT_GRACE_MS
    return Held.NO_HEARTBEAT if window.ended_at is None and silent else None


def _switched_off(switches: Switches) -> frozenset[str]:
    """Return the meters whose billing is switched off (B20, B21, B23)."""
    return frozenset() if switches.live else frozenset(meter.name for meter in METERS.values() if meter.switched)


def _price(turn: Turn, profile: str) -> int | None:
    """Return the price of a profile at the record's time, in atto per hour; None: it has none (B9)."""
    record = turn.prices.at(profile, turn.now)
    return None if record is None or record.price is None else to_atto(record.price)


def _day_and_type(meter: str, start: int) -> tuple[str, str]:
    """Return the day and the type whose sums include a usage event or a credit that starts at `start` (U1)."""
    return rfc3339(start)[:10], METERS[meter].usage_type


def _count_of(owner: Owner, meter: str) -> WindowCount:
    return next((count for count in owner.window_counts if count.meter == meter), WindowCount(meter, 0, 0))


def _set_count(turn: Turn, owner: Owner, count: WindowCount) -> None:
    others: Any = (one for one in owner.window_counts if one.meter != count.meter)
    turn.store.change(owner, window_counts=(*others, count))


def _log_next(turn: Turn, due: Sequence[Window]) -> None:
    """Log the next event of each window instead of sending it: a dry run (B21)."""
    for window in due:
        if _price(turn, window.profile) is None:
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
        turn.decision.log_lines.append(LogLine("info", "dry run: would send", fields))
