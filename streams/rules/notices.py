"""Notices to an org of a low or empty balance, and of a destroy ahead (rules N1, I8)."""

from schemas.notices import Notice, NoticeKind
from schemas.times import rfc3339
from streams.billing.burn import burn_per_hour, runway_s
from streams.billing.money import ATTO, to_atto, to_text
from streams.lifecycle.instance import InstanceStage
from streams.limits import (
    DEBT_LIMIT,
    DEBT_MS,
    DESTROY_NOTICE_AHEAD_MS,
    MAX_NOTICES_SHOWN,
    RUNWAY_NOTICE_INTERVAL_MS,
    RUNWAY_THRESHOLDS_S,
)
from streams.rules.context import Turn
from streams.rules.rows import Org, SentNotice
from topics.catalogue import NOTICES


def is_in_debt(org: Org) -> bool:
    """Return whether the balance is at or below −35 (I8)."""
    return org.balance is not None and to_atto(org.balance) <= DEBT_LIMIT * ATTO


def send_notices(turn: Turn) -> None:
    """Send the notices due at a tick, and store the org's thresholds for comparison at the next tick (N1)."""
    org = turn.rows.org
    if org.balance is None:
        return
    balance = to_atto(org.balance)
    burn = burn_per_hour(turn.rows.units, turn.prices, turn.now)
    runway = runway_s(balance, burn)
    is_empty = balance <= 0
    below_s = tuple(limit for limit in RUNWAY_THRESHOLDS_S if is_empty or (runway is not None and runway < limit))
    if is_empty and not org.was_empty:
        _send(turn, "balance_empty", burn, runway)
    crossed_s = [limit for limit in below_s if limit not in org.was_below_s]
    if crossed_s and not is_empty:
        _send_runway(turn, min(crossed_s), burn, runway)
    if _destroys_soon(turn):
        _send(turn, "auto_destroy_ahead", burn, runway)
        turn.store.change(org, destroy_notice_at=turn.now)
    if (is_empty, below_s) != (org.was_empty, org.was_below_s):
        turn.store.change(org, was_empty=is_empty, was_below_s=below_s)


def _send_runway(turn: Turn, threshold_s: int, burn: int, runway: int | None) -> None:
    """Send `runway_low`, unless one of that threshold was sent within 6 h and the balance was not raised since."""
    org = turn.rows.org
    sent = dict(org.runway_notices)
    last = sent.get(threshold_s)
    if last is None or turn.now >= last + RUNWAY_NOTICE_INTERVAL_MS:
        _send(turn, "runway_low", burn, runway, threshold_s)
        turn.store.change(org, runway_notices=tuple(sorted({**sent, threshold_s: turn.now}.items())))


def _destroys_soon(turn: Turn) -> bool:
    """Return whether I8 will destroy within an hour, and no notice was sent since the balance became empty."""
    org = turn.rows.org
    if org.empty_since is None or org.destroy_notice_at is not None or not is_in_debt(org):
        return False
    stages = {instance.stage for instance in turn.rows.live_instances.values()}
    return turn.now >= org.empty_since + DEBT_MS - DESTROY_NOTICE_AHEAD_MS and bool(
        stages & {InstanceStage.STOPPED, InstanceStage.ERROR}
    )


def _send(turn: Turn, kind: NoticeKind, burn: int, runway: int | None, threshold_s: int | None = None) -> None:
    org = turn.rows.org
    sent = SentNotice(kind, threshold_s, turn.now)
    turn.store.change(org, notices_made=org.notices_made + 1, notices=(*org.notices, sent)[-MAX_NOTICES_SHOWN:])
    notice = Notice(
        notice_id=f"{org.org_id}:notice:{org.notices_made}",
        org_id=org.org_id,
        kind=kind,
        threshold_s=threshold_s,
        balance=org.balance or "0",
        burn_per_hour=to_text(burn),
        runway_s=runway,
        at=rfc3339(turn.now),
    )
    turn.decision.counts["notices", kind] += 1
    turn.decision.send(NOTICES.name, org.org_id, turn.now, notice)
