"""Events of `croesus.accounts`: an org's balance and its suspension (rules C3, I7, B22)."""

from schemas.accounts import BalanceUpdated, OrgReinstated, OrgSuspended
from streams.billing.money import to_atto
from streams.rules import instances
from streams.rules.context import Turn


def apply_account(turn: Turn, event: BalanceUpdated | OrgSuspended | OrgReinstated) -> None:
    """Apply what Croesus reports of an org."""
    if isinstance(event, BalanceUpdated):
        _apply_balance(turn, event)
    else:
        _apply_standing(turn, event)


def _apply_balance(turn: Turn, event: BalanceUpdated) -> None:
    """Set the org's balance; at or below zero, stop its running instances and release idle GPUs (I7)."""
    org = turn.rows.org
    last = org.balance_sequence
    if event.sequence is not None and last is not None and event.sequence <= last:
        turn.decision.ignore("old_sequence")
        return
    is_empty = to_atto(event.balance) <= 0
    turn.store.change(
        org,
        balance=event.balance,
        balance_sequence=last if event.sequence is None else event.sequence,
        empty_since=(turn.now if org.empty_since is None else org.empty_since) if is_empty else None,
    )
    if is_empty:
        for instance_id in sorted(turn.rows.live_instances):
            instances.react_to_empty_balance(turn, turn.rows.live_instances[instance_id])


def _apply_standing(turn: Turn, event: OrgSuspended | OrgReinstated) -> None:
    """Set whether the org is suspended: until it is reinstated it may begin nothing new (B22)."""
    suspended = isinstance(event, OrgSuspended)
    org = turn.rows.org
    if org.suspended is suspended:
        turn.decision.ignore("already_there")
        return
    turn.store.change(org, suspended=suspended)
