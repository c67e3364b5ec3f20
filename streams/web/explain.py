"""Why a charge exists, or why a minute was not charged (rules B1 to B12). Pure; `lookup.py` finds the records."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from schemas.base import Json
from schemas.times import parse_rfc3339
from streams.billing.minutes import floor_minute
from streams.billing.usage import usage_id
from streams.billing.windows import Held, Window, horizon
from streams.lifecycle.instance import STAGES
from streams.limits import HEARTBEAT_GRACE_MS, MINUTE_MS
from streams.meters import METERS, Meter, unit_of
from streams.rules.charging import held
from streams.rules.rows import Instance, Replica
from streams.rules.store import OrgRows
from streams.web import shapes
from streams.web.shapes import Valuation
from streams.web.times import time_or_null, time_text

_PARTS = "|".join(meter.id_part for meter in METERS.values() if meter.id_part)
_SHAPE = re.compile(
    rf"(?P<owner>[A-Za-z0-9][A-Za-z0-9._-]*)(?::(?P<part>{_PARTS}))?:(?P<start>\d{{4}}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{{3}}Z)",
    re.ASCII,
)
_METERS: Mapping[str | None, Meter[Any]] = {meter.id_part or None: meter for meter in METERS.values()}
_RUNNING = {
    name: " or ".join(dict.fromkeys(STAGES[stage].state for stage in STAGES if stage in meter.runs_in)) or "running"
    for name, meter in METERS.items()
}
_HELD_WORDS = {
    Held.UNPRICED: "its profile {profile} has no price; once it has one, this time is billed (B9)",
    Held.BILLING_OFF: "DEDICATED_BILLING_ENABLED is off; once it is on, this time is billed (B20)",
    Held.DRY_RUN: "DEDICATED_BILLING_DRY_RUN is on; once it is off, this time is billed (B21)",
    Held.NO_HEARTBEAT: "no heartbeat since {heartbeat}; billed once they return, forgiven if the replica ends (B7)",
}


class NotAUsageId(ValueError):
    """The text is not a usage id; the message describes one."""


@dataclass(frozen=True, slots=True)
class UsageId:
    """A usage id: a meter of a replica or an instance, and the start of an interval."""

    owner_id: str
    meter: Meter[Any]
    start_ms: int


@dataclass(frozen=True, slots=True)
class Piece:
    """The minute asked for, in its window. `reason` None: it was charged, by the event `event_id`."""

    window: Window | None
    start_ms: int
    end_ms: int
    reason: str | None
    detail: str
    held: Held | None = None
    event_id: str | None = None


def read_usage_id(text: str) -> UsageId:
    """Parse a usage id, or the id of a credit: that of the usage event it takes back from. Raises `NotAUsageId`."""
    found = _SHAPE.fullmatch(text.partition(":credit:")[0])
    try:
        start_ms = parse_rfc3339(found["start"]) if found else None
    except ValueError:
        start_ms = None
    if found is None or start_ms is None:
        raise NotAUsageId(
            "a usage id is <replica_id>:<interval_start>, <instance_id>:gpu:<interval_start> or "
            "<instance_id>:disk:<interval_start>, its time like 2026-11-29T12:00:00.000Z"
        )
    return UsageId(found["owner"], _METERS[found["part"]], start_ms)


def owner_of(org: OrgRows, asked: UsageId) -> Replica | Instance | None:
    """Return whose meter it is; None where the org has no such replica or instance."""
    if asked.meter.owner == "replica":
        return org.replicas.get(asked.owner_id)
    return org.instances.get(asked.owner_id)


def evaluate(valuation: Valuation, org: OrgRows, owner: Replica | Instance, asked: UsageId) -> Piece:
    """Return the part of a window that contains the time asked for, and what became of it."""
    found = [one for one in org.windows_of(owner) if one.meter == asked.meter.name]
    for window in found:
        end = None if window.ended_at is None else max(window.ended_at, window.billed_until)
        if window.opened_at <= asked.start_ms and (end is None or asked.start_ms < end):
            return _in_window(valuation, window, asked)
    return _outside(valuation, org, owner, found, asked)


def _in_window(valuation: Valuation, window: Window, asked: UsageId) -> Piece:
    start = max(window.opened_at, floor_minute(asked.start_ms))
    end = floor_minute(asked.start_ms) + MINUTE_MS
    billed_to = _billed_to(window)
    if asked.start_ms < billed_to:
        end = min(end, billed_to)
        name = usage_id(window.meter, window.owner_id, start)
        detail = f"Charged: {time_text(start)} to {time_text(end)} of window {window.window_id}; {_bound(window, end)}."
        return Piece(window, start, end, None, detail, event_id=name)
    start = max(start, billed_to)
    if window.ended_at is not None:
        end = min(end, window.ended_at)
        forgiven_from = horizon(window, window.ended_at)
        if asked.start_ms >= forgiven_from:
            return Piece(window, max(start, forgiven_from), end, "forgiven", _forgiven(window, forgiven_from))
        end = min(end, forgiven_from)
    reason = held(window, valuation.prices, valuation.switches, valuation.as_of)
    if reason is not None and asked.start_ms < valuation.as_of:
        words = _HELD_WORDS[reason].format(
            profile=window.profile, heartbeat=time_or_null(window.last_health_check) or "it opened"
        )
        if reason is not Held.NO_HEARTBEAT:
            return Piece(window, start, end, "held", f"Held: {words}.", held=reason)
        if asked.start_ms >= horizon(window, valuation.as_of):
            return Piece(window, start, end, "paused", f"Paused: {words}.", held=reason)
    return Piece(
        window,
        start,
        end,
        "not_due",
        f"Not yet charged: window {window.window_id} is billed up to {time_text(window.billed_until)}; whole minutes "
        f"follow at the next ticks, 60 of them at a time (B3 to B5).",
    )


def _billed_to(window: Window) -> int:
    """Return up to where events were sent: less than a done window's watermark, where time was forgiven (B6)."""
    if not window.done or window.ended_at is None:
        return window.billed_until
    if window.billed_until > window.ended_at:
        return window.billed_until
    return horizon(window, window.ended_at)


def _bound(window: Window, end: int) -> str:
    """Say what determined the end."""
    if end % MINUTE_MS == 0:
        return "it ends with the clock minute (B4)"
    if window.ended_at == end:
        return "it ends where the window ended (B3)"
    return "it ends 90 s after the last heartbeat (B3)"


def _forgiven(window: Window, forgiven_from: int) -> str:
    heartbeat = time_or_null(window.last_health_check)
    return (
        f"Forgiven: the last heartbeat came at {heartbeat}, so nothing after {time_text(forgiven_from)} (90 s later) "
        f"is charged, although the window ended only at {time_or_null(window.ended_at)} (B3, B6)."
    )


def _outside(
    valuation: Valuation, org: OrgRows, owner: Replica | Instance, found: list[Window], asked: UsageId
) -> Piece:
    start = floor_minute(asked.start_ms)
    end = start + MINUTE_MS
    at = time_text(asked.start_ms)
    if isinstance(owner, Replica) and org.deployments[owner.deployment_id].serving != "dedicated":
        detail = f"Not charged: {owner.deployment_id} is serverless, and its replicas have no running windows (P8)."
        return Piece(None, start, end, "serverless", detail)
    if asked.start_ms > valuation.as_of:
        return Piece(
            None,
            start,
            end,
            "not_due",
            f"Not yet charged: {at} is after {time_text(valuation.as_of)}, up to which records are applied.",
        )
    name = f"{'replica' if isinstance(owner, Replica) else 'instance'} {asked.owner_id}"
    state = _RUNNING[asked.meter.name]
    before = [window for window in found if window.ended_at is not None and window.ended_at <= asked.start_ms]
    after = [window for window in found if window.opened_at > asked.start_ms]
    words = [f"Not charged: {name} was not {state} at {at}"]
    if before:
        words.append(f"window {before[-1].window_id} had ended at {time_or_null(before[-1].ended_at)}")
    if after:
        words.append(f"window {after[0].window_id} opened at {time_text(after[0].opened_at)}")
    if not before and not after:
        words.append(f"it has no window of that meter (it was created at {time_text(owner.created_at)})")
    return Piece(None, start, end, "not_running", "; ".join(words) + ".")


def explain(valuation: Valuation, asked_id: str, org_id: str, piece: Piece, currency: str, sent: Json | None) -> Json:
    """Return the whole response. `sent`: where the usage event and the record that caused it are; None: unknown."""
    window = piece.window
    priced_at = valuation.as_of
    if sent is not None and sent["usage"] is not None:
        priced_at = parse_rfc3339(sent["usage"]["timestamp"])
    found: Json = {
        "usage_id": asked_id,
        "event_id": piece.event_id,
        "org_id": org_id,
        "charged": piece.reason is None,
        "reason": piece.reason,
        "held": None if piece.held is None else piece.held.value,
        "detail": piece.detail,
        "interval_start": time_text(piece.start_ms),
        "interval_end": time_text(piece.end_ms),
        "duration_ms": piece.end_ms - piece.start_ms,
        "window": None,
        "opened_by": None,
        "closed_by": None,
        "last_heartbeat": None,
        "usage": None if sent is None else sent["usage"],
        "sent_by": None if sent is None else sent["sent_by"],
        "profile": None,
        "quantity": None,
        "price": None,
        "credits": [],
    }
    if window is None:
        return found
    return found | {
        "credits": _credits(window, piece),
        "window": shapes.window(valuation, window),
        "opened_by": shapes.origin(valuation, window.opened_by),
        "closed_by": shapes.origin(valuation, window.closed_by),
        "last_heartbeat": _heartbeat(window),
        "profile": window.profile,
        "quantity": window.quantity,
        "price": price(valuation, window.profile, priced_at, currency),
    }


def _credits(window: Window, piece: Piece) -> list[Json]:
    """Return which parts of a charge are owed back, and whether they were sent (B13)."""
    pending = [(one.start, one.end) for one in window.owed_credits]
    found: list[Json] = []
    for owed_start, owed_end in window.owed_back:
        start, end = max(owed_start, piece.start_ms), min(owed_end, piece.end_ms)
        if start < end:
            waits = any(pending_start < end and start < pending_end for pending_start, pending_end in pending)
            found.append({"from": time_text(start), "until": time_text(end), "sent": not waits})
    return found


def _heartbeat(window: Window) -> Json | None:
    if window.last_health_check is None:
        return None
    return {
        "at": time_text(window.last_health_check),
        "bounds_until": time_text(window.last_health_check + HEARTBEAT_GRACE_MS),
    }


def price(valuation: Valuation, profile: str, at_ms: int, currency: str) -> Json | None:
    """Return the price at `at_ms`, and since when; null where there was none."""
    record = valuation.prices.at(profile, at_ms)
    if record is None:
        return None
    return {
        "price": record.price,
        "currency": currency,
        "unit": unit_of(profile),
        "since": time_text(record.at_ms),
        "at": time_text(at_ms),
        "origin": {
            "topic": "croesus.prices",
            "partition": 0,
            "offset": record.offset,
            "timestamp": time_text(record.at_ms),
        },
    }
