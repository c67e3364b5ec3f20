"""What is remembered, and for how long: events and answers for 24 h (C1, C4), ended rows for the retention (C5)."""

from streams.limits import DEDUPE_MS
from streams.rules.context import Turn
from streams.rules.rows import Deployment, Instance, Replica, Row, Seen
from streams.rules.store import OrgRows, RowStore


def seen_before(turn: Turn, topic: str, event_id: str) -> bool:
    """Return whether the event was applied within the last 24 h; if so, count it as a duplicate (C4)."""
    known = turn.rows.events.get(f"{topic}/{event_id}")
    if known is None or turn.now >= known + DEDUPE_MS:
        return False
    turn.decision.counts["duplicate", topic] += 1
    return True


def remember(turn: Turn, topic: str, event_id: str) -> None:
    """Keep the event's id, so that it counts once (C4)."""
    turn.store.add(Seen(turn.org_id, topic, event_id, turn.now))


def remove_expired(store: RowStore, now_ms: int) -> None:
    """Remove the rows that may leave their tables, owners before deployments (C1, C4, C5).

    One that still has a window to be billed, or a replica's row, stays until a later tick.
    """
    for event in store.expired_events(now_ms):
        store.remove(event)
    for row in sorted(store.expired(now_ms), key=lambda row: isinstance(row, Deployment)):
        rows = store.orgs[row.org_id]
        if _must_stay(rows, row):
            store.keep(row)
            continue
        if isinstance(row, Replica | Instance):
            for window in rows.windows_of(row):
                store.remove(window)
        store.remove(row)


def _must_stay(rows: OrgRows, row: Row) -> bool:
    match row:
        case Replica() | Instance():
            return any(not window.done for window in rows.windows_of(row))
        case Deployment():
            return any(f"{row.deployment_id}-r{n}" in rows.replicas for n in range(1, row.replicas_made + 1))
        case _:
            return False
