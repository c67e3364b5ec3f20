"""Why a charge exists, or why a minute was not charged (rules B1 to B12). Pure but for what `lookup.py` adds."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from schemas.times import parse_rfc3339, rfc3339
from streams.billing.minutes import floor_minute
from streams.billing.usage import usage_id
from streams.billing.windows import Held, Window, horizon
from streams.lifecycle.instance import STAGES
from streams.limits import HEARTBEAT_GRACE_MS, MINUTE_MS
from streams.meters import DISK_PROFILE, METERS, Meter
from streams.rules.charging import held
from streams.rules.rows import Instance, Replica
from streams.rules.store import OrgRows
from streams.web import shapes
from streams.web.shapes import View

Json = dict[str, Any]

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
    Held.NO_HEARTBEAT: "no heartbeat since {beat}; billed once they return, forgiven if the replica ends (B7)",
}


class NoUsageId(ValueError):
    """The text is no usage id; the message says what one looks like."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What a usage id names: a meter of a replica or an instance, and a time on it."""

    owner_id: str
    meter: Meter[Any]
    start_ms: int


@dataclass(frozen=True, slots=True)
class Piece:
    """The time that is asked about, in its window; `reason` None: it was charged, by the event `event_id`."""

    window: Window | None
    start_ms: int
    end_ms: int
    reason: str | None
    detail: str
    held: Held | None = None
    event_id: str | None = None


def read_usage_id(text: str) -> Asked:
    """Take a usage id apart. Raises `NoUsageId`."""
    found = _SHAPE.fullmatch(text)
    try:
        start_ms = parse_rfc3339(found["start"]) if found else None
    except ValueError:
        start_ms = None
    if found is None or start_ms is None:
        raise NoUsageId(
            "a usage id is <replica_id>:<interval_start>, <instance_id>:gpu:<interval_start> or "
            "<instance_id>:disk:<interval_start>, its time like 2026-11-29T12:00:00.000Z"
        )
    return Asked(found["owner"], _METERS[found["part"]], start_ms)


def owner_of(rows: OrgRows, asked: Asked) -> Replica | Instance | None:
    """Whose meter it is; None where the org has no such replica or instance."""
    if asked.meter.owner == "replica":
        return rows.replicas.get(asked.owner_id)
    return rows.instances.get(asked.owner_id)


def judge(view: View, rows: OrgRows, owner: Replica | Instance, asked: Asked) -> Piece:
    """The piece of a window that holds the time asked about, and what became of it."""
    found = [one for one in rows.windows_of(owner) if one.meter == asked.meter.name]
    for window in found:
        end = None if window.ended_at is None else max(window.ended_at, window.billed_until)
        if window.opened_at <= asked.start_ms and (end is None or asked.start_ms < end):
            return _in_window(view, window, asked)
    return _outside(view, rows, owner, found, asked)


def _in_window(view: View, window: Window, asked: Asked) -> Piece:
    start = max(window.opened_at, floor_minute(asked.start_ms))
    end = floor_minute(asked.start_ms) + MINUTE_MS
    billed_to = _billed_to(window)
    if asked.start_ms < billed_to:
        end = min(end, billed_to)
        name = usage_id(window.meter, window.owner_id, start)
        detail = f"Charged: {rfc3339(start)} to {rfc3339(end)} of window {window.window_id}; {_bound(window, end)}."
        return Piece(window, start, end, None, detail, event_id=name)
    start = max(start, billed_to)
    if window.ended_at is not None:
        end = min(end, window.ended_at)
        forgiven_from = horizon(window, window.ended_at)
        if asked.start_ms >= forgiven_from:
            return Piece(window, max(start, forgiven_from), end, "forgiven", _forgiven(window, forgiven_from))
        end = min(end, forgiven_from)
    reason = held(window, view.prices, view.switches, view.as_of)
    if reason is not None and asked.start_ms < view.as_of:
        words = _HELD_WORDS[reason].format(
            profile=window.profile, beat=shapes.time_or_null(window.last_health_check) or "it opened"
        )
        if reason is not Held.NO_HEARTBEAT:
            return Piece(window, start, end, "held", f"Held: {words}.", held=reason)
        if asked.start_ms >= horizon(window, view.as_of):
            return Piece(window, start, end, "paused", f"Paused: {words}.", held=reason)
    return Piece(
        window,
        start,
        end,
        "not_due",
        f"Not yet charged: window {window.window_id} is billed up to {rfc3339(window.billed_until)}; whole minutes "
        f"follow at the next ticks, 60 of them at a time (B3 to B5).",
    )


def _billed_to(window: Window) -> int:
    """Up to where events were sent: before a done window's watermark, where time was forgiven (B6)."""
    if not window.done or window.ended_at is None:
        return window.billed_until
    if window.billed_until > window.ended_at:
        return window.billed_until
    return horizon(window, window.ended_at)


def _bound(window: Window, end: int) -> str:
    """What put the end where it is."""
    if end % MINUTE_MS == 0:
        return "it ends with the clock minute (B4)"
    if window.ended_at == end:
        return "it ends where the window ended (B3)"
    return "it ends 90 s after the last heartbeat (B3)"


def _forgiven(window: Window, forgiven_from: int) -> str:
    beat = shapes.time_or_null(window.last_health_check)
    return (
        f"Forgiven: the last heartbeat came at {beat}, so nothing after {rfc3339(forgiven_from)} (90 s later) is "
        f"charged, although the window ended only at {shapes.time_or_null(window.ended_at)} (B3, B6)."
    )


def _outside(view: View, rows: OrgRows, owner: Replica | Instance, found: list[Window], asked: Asked) -> Piece:
    start = floor_minute(asked.start_ms)
    end = start + MINUTE_MS
    at = rfc3339(asked.start_ms)
    if isinstance(owner, Replica) and rows.deployments[owner.deployment_id].serving != "dedicated":
        detail = f"Not charged: {owner.deployment_id} is serverless, and its replicas have no running windows (P8)."
        return Piece(None, start, end, "serverless", detail)
    if asked.start_ms > view.as_of:
        return Piece(
            None, start, end, "not_due", f"Not yet charged: {at} is later than {rfc3339(view.as_of)}, read so far."
        )
    name = f"{'replica' if isinstance(owner, Replica) else 'instance'} {asked.owner_id}"
    state = _RUNNING[asked.meter.name]
    before = [window for window in found if window.ended_at is not None and window.ended_at <= asked.start_ms]
    after = [window for window in found if window.opened_at > asked.start_ms]
    words = [f"Not charged: {name} was not {state} at {at}"]
    if before:
        words.append(f"window {before[-1].window_id} had ended at {shapes.time_or_null(before[-1].ended_at)}")
    if after:
        words.append(f"window {after[0].window_id} opened at {rfc3339(after[0].opened_at)}")
    if not before and not after:
        words.append(f"it has no window of that meter (it was created at {rfc3339(owner.created_at)})")
    return Piece(None, start, end, "not_running", "; ".join(words) + ".")


def explain(view: View, asked_id: str, org_id: str, piece: Piece, currency: str, sent: Json | None) -> Json:
    """The whole answer. `sent`: the usage event as it stands in Kafka and the record that caused it; None: unknown."""
    window = piece.window
    priced_at = view.as_of
    if sent is not None and sent["usage"] is not None:
        priced_at = parse_rfc3339(sent["usage"]["timestamp"])
    told: Json = {
        "usage_id": asked_id,
        "event_id": piece.event_id,
        "org_id": org_id,
        "charged": piece.reason is None,
        "reason": piece.reason,
        "held": None if piece.held is None else piece.held.value,
        "detail": piece.detail,
        "interval_start": rfc3339(piece.start_ms),
        "interval_end": rfc3339(piece.end_ms),
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
    }
    if window is None:
        return told
    return told | {
        "window": shapes.window(view, window),
        "opened_by": shapes.origin(view, window.opened_by),
        "closed_by": shapes.origin(view, window.closed_by),
        "last_heartbeat": _heartbeat(window),
        "profile": window.profile,
        "quantity": window.quantity,
        "price": price(view, window.profile, priced_at, currency),
    }


def _heartbeat(window: Window) -> Json | None:
    if window.last_health_check is None:
        return None
    return {
        "at": rfc3339(window.last_health_check),
        "bounds_until": rfc3339(window.last_health_check + HEARTBEAT_GRACE_MS),
    }


def price(view: View, profile: str, at_ms: int, currency: str) -> Json | None:
    """The price that held at `at_ms`, and since when; null where there was none."""
    record = view.prices.at(profile, at_ms)
    if record is None:
        return None
    return {
        "price": record.price,
        "currency": currency,
        "unit": "per GB per hour" if profile == DISK_PROFILE else "per hour",
        "since": rfc3339(record.at_ms),
        "at": rfc3339(at_ms),
        "origin": {
            "topic": "croesus.prices",
            "partition": 0,
            "offset": record.offset,
            "timestamp": rfc3339(record.at_ms),
        },
    }
