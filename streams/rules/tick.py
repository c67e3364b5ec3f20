"""A tick: what time alone brings about, per org, in the rule book's order ("Within a tick")."""

from streams.billing.money import ATTO, to_atto
from streams.billing.prices import Prices
from streams.billing.windows import Origin, WindowMeter
from streams.lifecycle.instance import ENDED_CODES, InstanceState, Timer
from streams.limits import DEBT_LIMIT, DEBT_MS, ERROR_EXPIRY_MS, START_TIMEOUT_MS, STOP_TIMEOUT_MS
from streams.rules import deployments, instances
from streams.rules.book import Book
from streams.rules.charging import bill_due
from streams.rules.context import Switches, Turn
from streams.rules.decision import Decision
from streams.rules.memory import forget_expired
from streams.rules.rows import Instance

_TIMEOUTS: dict[InstanceState, tuple[int, Timer]] = {
    InstanceState.STOPPING: (STOP_TIMEOUT_MS, Timer.STOP_TIMED_OUT),
    InstanceState.STARTING: (START_TIMEOUT_MS, Timer.START_TIMED_OUT),
}


def apply_tick(book: Book, prices: Prices, switches: Switches, origin: Origin, decision: Decision) -> None:
    """Let every org's time pass up to `origin.timestamp`, orgs in order of their ids."""
    for org_id in sorted(book.orgs):
        turn = Turn(book, book.orgs[org_id], prices, switches, origin, decision)
        deployments.stop_suspended(turn)
        deployments.pause_idle(turn)
        deployments.scale(turn)
        in_debt = _in_debt(turn)
        for instance_id in sorted(turn.rows.held):
            _pass_time(turn, turn.rows.held[instance_id], in_debt=in_debt)
        bill_due(turn, WindowMeter.DEDICATED)
        bill_due(turn, WindowMeter.GPU)
        _check_units(turn)
    forget_expired(book, origin.timestamp, decision)


def _pass_time(turn: Turn, instance: Instance, *, in_debt: bool) -> None:
    """Timeouts, orders sent again, expiry in error, debt: in this order (I1, I9, I8)."""
    since_ms = turn.now - instance.entered_at
    if instance.state in _TIMEOUTS:
        timeout_ms, timer = _TIMEOUTS[instance.state]
        if since_ms >= timeout_ms:
            instances.apply_trigger(turn, instance, timer, timer.value)
    instances.send_again(turn, instance)
    expired = instance.state is InstanceState.ERROR and turn.now >= instance.entered_at + ERROR_EXPIRY_MS
    if expired and (not instance.ran or instance.error_code in ENDED_CODES):
        instances.apply_trigger(turn, instance, Timer.ERROR_EXPIRED, Timer.ERROR_EXPIRED.value)
    if in_debt and instance.state in {InstanceState.STOPPED, InstanceState.ERROR}:
        instances.apply_trigger(turn, instance, Timer.BALANCE_DEBT, Timer.BALANCE_DEBT.value)


def _in_debt(turn: Turn) -> bool:
    """The balance has been at or below zero for 24 h without a break, and is at or below −35 (I8)."""
    org = turn.rows.org
    if org.balance is None or org.empty_since is None or turn.now < org.empty_since + DEBT_MS:
        return False
    return to_atto(org.balance) <= DEBT_LIMIT * ATTO


def _check_units(turn: Turn) -> None:
    fresh = turn.rows.fresh_units()
    if turn.rows.units != fresh:
        msg = f"org {turn.org_id}: the burn counts {dict(turn.rows.units)}, its rows say {dict(fresh)} (I6)"
        raise AssertionError(msg)
