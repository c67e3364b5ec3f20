"""A tick: what the passing of time does, per org, in the rule book's order ("Within a tick")."""

from streams.billing.money import ATTO, to_atto
from streams.billing.prices import Prices
from streams.billing.windows import Origin
from streams.lifecycle.instance import ENDED_CODES, STAGES, InstanceStage, Timer
from streams.limits import DEBT_LIMIT, DEBT_MS, ERROR_EXPIRY_MS
from streams.meters import OWNER_KINDS
from streams.rules import deployments, instances
from streams.rules.charging import bill_due
from streams.rules.context import Switches, Turn
from streams.rules.decision import Decision
from streams.rules.memory import remove_expired
from streams.rules.rows import Instance
from streams.rules.store import RowStore


def apply_tick(store: RowStore, prices: Prices, switches: Switches, origin: Origin, decision: Decision) -> None:
    """Advance every org to `origin.timestamp`, orgs in order of their ids."""
    for org_id in sorted(store.orgs):
        turn = Turn(store, store.orgs[org_id], prices, switches, origin, decision)
        deployments.stop_suspended(turn)
        deployments.pause_idle(turn)
        deployments.scale(turn)
        in_debt = _in_debt(turn)
        for instance_id in sorted(turn.rows.live_instances):
            _pass_time(turn, turn.rows.live_instances[instance_id], in_debt=in_debt)
        for kind in OWNER_KINDS:
            bill_due(turn, kind)
    remove_expired(store, origin.timestamp)


def _pass_time(turn: Turn, instance: Instance, *, in_debt: bool) -> None:
    """Apply the timeout, orders sent again, expiry in error and debt, in this order (I1, I9, I8)."""
    times_out = STAGES[instance.stage].times_out
    if times_out is not None:
        timeout_ms, timer = times_out
        if turn.now >= instance.entered_at + timeout_ms:
            instances.apply_trigger(turn, instance, timer, timer.value)
    instances.send_again(turn, instance)
    expired = instance.stage is InstanceStage.ERROR and turn.now >= instance.entered_at + ERROR_EXPIRY_MS
    if expired and (not instance.ran or instance.error_code in ENDED_CODES):
        instances.apply_trigger(turn, instance, Timer.ERROR_EXPIRED, Timer.ERROR_EXPIRED.value)
    if in_debt:
        instances.apply_trigger(turn, instance, Timer.BALANCE_DEBT, Timer.BALANCE_DEBT.value)


def _in_debt(turn: Turn) -> bool:
    """Return whether the balance has been at or below zero for 24 h without a break, and is at or below −35 (I8)."""
    org = turn.rows.org
    if org.balance is None or org.empty_since is None or turn.now < org.empty_since + DEBT_MS:
        return False
    return to_atto(org.balance) <= DEBT_LIMIT * ATTO
