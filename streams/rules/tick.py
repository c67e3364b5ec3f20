"""Ticks: everything that depends on time alone, per org, in the order of the rules ("Within a tick")."""

from schemas.clock import Tick
from streams.billing.prices import Prices
from streams.billing.windows import Origin
from streams.lifecycle.instance import ENDED_CODES, STAGES, InstanceStage, Timer
from streams.limits import DEBT_MS, DESTROY_NOTICE_AHEAD_MS, ERROR_EXPIRY_MS, MAX_CLOCK_DIFFERENCE_MS
from streams.meters import OWNER_KINDS
from streams.rules import deployments, instances
from streams.rules.charging import bill_due, credit_due
from streams.rules.context import Switches, Turn
from streams.rules.decision import Decision, LogLine
from streams.rules.memory import remove_expired
from streams.rules.notices import is_in_debt, send_notices
from streams.rules.rows import Instance
from streams.rules.store import RowStore


def is_void(tick: Tick, timestamp: int) -> bool:
    """Return whether a tick's timestamp disagrees with its writer's clock (contract, `obol.clock`)."""
    return tick.at is not None and abs(timestamp - tick.at) > MAX_CLOCK_DIFFERENCE_MS


def apply_tick(
    store: RowStore, prices: Prices, switches: Switches, tick: Tick, origin: Origin, decision: Decision
) -> None:
    """Apply a tick at `origin.timestamp` to every org, in order of their ids.

    A void tick, or one before the latest (I12), changes nothing.
    """
    now = origin.timestamp
    if is_void(tick, now):
        decision.ignore("clock_disagrees")
        fields: dict[str, str | int | None] = {"timestamp": now, "at": tick.at, "offset": origin.offset}
        decision.log_lines.append(
            LogLine("warning", "void tick: its timestamp and its writer's clock disagree", fields)
        )
        return
    if now < store.latest_tick:
        decision.ignore("old_tick")
        return
    for org_id in sorted(store.orgs):
        turn = Turn(store, store.orgs[org_id], prices, switches, origin, decision)
        deployments.stop_suspended(turn)
        deployments.pause_idle(turn)
        deployments.scale(turn)
        in_debt = _destroys_now(turn)
        for instance_id in sorted(turn.rows.live_instances):
            _apply_time(turn, turn.rows.live_instances[instance_id], in_debt=in_debt)
        for kind in OWNER_KINDS:
            bill_due(turn, kind)
            credit_due(turn, kind)
        send_notices(turn)
    remove_expired(store, now)
    store.latest_tick = now


def _apply_time(turn: Turn, instance: Instance, *, in_debt: bool) -> None:
    """Apply the timeout, orders sent again, expiry in error and debt, in this order (I1, I9, I8)."""
    times_out = STAGES[instance.stage].times_out
    if times_out is not None:
        timeout_ms, timer = times_out
        if instance.timer_from is None:
            turn.store.change(instance, timer_from=max(instance.entered_at, turn.now))
        elif turn.now >= instance.timer_from + timeout_ms:
            instances.apply_trigger(turn, instance, timer, timer.value)
    resends = STAGES[instance.stage].resends
    if resends is not None:
        instances.send_again(turn, instance, resends)
    expired = instance.stage is InstanceStage.ERROR and turn.now >= instance.entered_at + ERROR_EXPIRY_MS
    if expired and (not instance.ran or instance.error_code in ENDED_CODES):
        instances.apply_trigger(turn, instance, Timer.ERROR_EXPIRED, Timer.ERROR_EXPIRED.value)
    if in_debt:
        instances.apply_trigger(turn, instance, Timer.BALANCE_DEBT, Timer.BALANCE_DEBT.value)


def _destroys_now(turn: Turn) -> bool:
    """Return whether I8 applies: 24 h at or below zero, now at or below −35, and an hour since the notice."""
    org = turn.rows.org
    if org.empty_since is None or turn.now < org.empty_since + DEBT_MS or not is_in_debt(org):
        return False
    return org.destroy_notice_at is not None and turn.now >= org.destroy_notice_at + DESTROY_NOTICE_AHEAD_MS
