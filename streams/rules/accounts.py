"""Events of `croesus.accounts`: an org's balance and its suspension (rules C3, I7, B22)."""

from schemas.accounts import BalanceUpdated, OrgReinstated, OrgSuspended
from streams.billing.money import to_atto
from streams.rules import instances
from streams.rules.context import Turn
from streams.rules.decision import LogLine


def apply_account(turn: Turn, event: BalanceUpdated | OrgSuspended | OrgReinstated) -> None:
    """Apply what Croesus reports of an org."""
    if isinstance(event, BalanceUpdated):
        _apply_balance(turn, event)
    else:
        _apply_suspension(turn, event)


def _apply_balance(turn: Turn, event: BalanceUpdated) -> None:
    """Set the org's balance; at or below zero, stop its running instances and release idle GPUs (I7)."""
    org = turn.rows.org
    if event.epoch < org.epoch:
        _ignore_old_epoch(turn, event)
        return
    greatest = org.greatest_sequence if event.epoch == org.epoch else None
    if event.sequence is not None and greatest is not None and event.sequence <= greatest:
        turn.decision.ignore("old_sequence")
        return
    balance = to_atto(event.balance)
    is_empty = balance <= 0
    was_raised = org.balance is not None and balance > to_atto(org.balance)
    turn.store.change(
        org,
        balance=event.balance,
        epoch=event.epoch,
        sequence=event.sequence,
        greatest_sequence=greatest if event.sequence is None else event.sequence,
        empty_since=(turn.now if org.empty_since is None else org.empty_since) if is_empty else None,
        runway_notices=() if was_raised else org.runway_notices,
        destroy_notice_at=org.destroy_notice_at if is_empty else None,
    )
    if is_empty:
        for instance_id in sorted(turn.rows.live_instances):
            instances.react_to_empty_balance(turn, turn.rows.live_instances[instance_id])


def _ignore_old_epoch(turn: Turn, event: BalanceUpdated) -> None:
    """Count and warn of an update of a lower epoch: an old instance of Croesus still sends, or its epoch was reset."""
    turn.decision.ignore("old_epoch")
    turn.decision.counts["old_epoch", "balance_updated"] += 1
    fields: dict[str, str | int | None] = {
        "org_id": turn.org_id,
        "event_id": event.event_id,
        "epoch": event.epoch,
        "last_epoch": turn.rows.org.epoch,
    }
    turn.decision.log_lines.append(LogLine("warning", "balance update of a lower epoch ignored", fields))


def _apply_suspension(turn: Turn, event: OrgSuspended | OrgReinstated) -> None:
    """Set whether the org is suspended (B22)."""
    suspended = isinstance(event, OrgSuspended)
    org = turn.rows.org
    if org.suspended is suspended:
        turn.decision.ignore("already_there")
        return
    turn.store.change(org, suspended=suspended)
