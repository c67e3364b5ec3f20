"""What Croesus tells of an org: its balance and its suspension (rules C3, I7, B22)."""

from schemas.accounts import BalanceUpdated, OrgReinstated, OrgSuspended
from streams.billing.money import to_atto
from streams.lifecycle.instance import InstanceState
from streams.rules import instances
from streams.rules.context import Turn
from streams.rules.memory import remember, seen_before

TOPIC = "croesus.accounts"


def apply_balance(turn: Turn, event: BalanceUpdated) -> None:
    """Take the org's balance; at or below zero its running instances are stopped and idle GPUs released (I7)."""
    org = turn.rows.org
    if event.sequence is not None:
        if org.balance_sequence is not None and event.sequence <= org.balance_sequence:
            turn.decision.ignore("old_sequence")
            return
        org.balance_sequence = event.sequence
    org.balance = event.balance
    turn.decision.put(org)
    if to_atto(event.balance) > 0:
        org.empty_since = None
        return
    if org.empty_since is None:
        org.empty_since = turn.now
    for instance_id in sorted(turn.rows.held):
        instance = turn.rows.held[instance_id]
        if instance.state is InstanceState.RUNNING:
            instances.stop_for_balance(turn, instance)
        elif instance.state is InstanceState.STOPPED:
            instances.release_if_idle(turn, instance)


def apply_standing(turn: Turn, event: OrgSuspended | OrgReinstated) -> None:
    """The org may begin nothing new until it is reinstated (B22)."""
    if seen_before(turn, TOPIC, event.event_id):
        return
    remember(turn, TOPIC, event.event_id)
    suspended = isinstance(event, OrgSuspended)
    org = turn.rows.org
    if org.suspended is suspended:
        turn.decision.ignore("already_there")
        return
    org.suspended = suspended
    turn.decision.put(org)
