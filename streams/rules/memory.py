"""The event memory, and the removal of rows whose time in their table is over (rules C1, C4, C5)."""

from streams.billing.windows import Window
from streams.limits import DEDUPE_MS
from streams.rules.context import Turn
from streams.rules.rows import Deployment, EventMemory, Instance, OperatorCommandMemory, Replica, Row, UsedId
from streams.rules.store import OrgRows, RowStore


def is_duplicate(turn: Turn, topic: str, event_id: str) -> bool:
    """Return whether the event was applied within the last 24 h; if so, count it as a duplicate (C4)."""
    known = turn.rows.events.get(f"{topic}/{event_id}")
    if known is None or turn.now >= known + DEDUPE_MS:
        return False
    turn.decision.counts["duplicate", topic] += 1
    return True


def remember_event(turn: Turn, topic: str, event_id: str) -> None:
    """Remember the event's id, so that it is applied once (C4)."""
    turn.store.add(EventMemory(turn.org_id, topic, event_id, turn.now))


def remove_expired(store: RowStore, now: int) -> None:
    """Remove the expired rows: windows before their owners, and those before deployments (C1, C4, C5).

    One that is still needed is checked again at each tick. The ids of deployments and instances stay used.
    """
    for event in store.expired_events(now):
        store.remove(event)
    for row in sorted(store.expired(now), key=_removal_rank):
        rows = store.orgs[row.org_id]
        if _is_needed(rows, row):
            store.keep(row)
            continue
        if isinstance(row, Deployment | Instance):
            kind = "deployment" if isinstance(row, Deployment) else "instance"
            store.add(UsedId(row.org_id, kind, row.row_id, now))
        store.remove(row)


def _removal_rank(row: Row) -> int:
    return 0 if isinstance(row, Window) else 2 if isinstance(row, Deployment) else 1


def _is_needed(rows: OrgRows, row: Row) -> bool:
    """Return whether the row has something left to bill or to credit, or other rows refer to it."""
    match row:
        case Window():
            return not row.done or bool(row.owed_credits)
        case Replica() | Instance():
            return bool(rows.windows_of(row))
        case Deployment():
            return any(f"{row.deployment_id}-r{n}" in rows.replicas for n in range(1, row.replicas_made + 1))
        case OperatorCommandMemory():
            return row.window_id in rows.windows
        case _:
            return False
