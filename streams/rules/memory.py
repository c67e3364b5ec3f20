"""What is remembered, and for how long: events and answers for 24 h (C1, C4), ended rows for the retention (C5)."""

from streams.limits import DEDUPE_MS
from streams.rules.book import Book, OrgBook
from streams.rules.context import Turn
from streams.rules.decision import Decision
from streams.rules.rows import Deployment, Instance, Replica, Row, Seen


def seen_before(turn: Turn, topic: str, event_id: str) -> bool:
    """Whether the event was taken in within the last 24 h; then it is counted as a duplicate (C4)."""
    known = turn.rows.events.get(f"{topic}/{event_id}")
    if known is None or turn.now >= known + DEDUPE_MS:
        return False
    turn.decision.counts["duplicate", topic] += 1
    return True


def remember(turn: Turn, topic: str, event_id: str) -> None:
    """The event was taken in, so that it counts once (C4)."""
    row = Seen(turn.org_id, topic, event_id, turn.now)
    event = row.row_id
    turn.rows.events[event] = turn.now
    turn.book.note_event(turn.org_id, event, turn.now)
    turn.decision.put(row)


def forget_expired(book: Book, now_ms: int, decision: Decision) -> None:
    """Take the rows whose time has come out of their tables, owners before deployments (C1, C4, C5).

    What still has a window to be billed, or a replica's row, waits for a later tick.
    """
    for event in book.expired_events(now_ms):
        _remove(book, book.orgs[event.org_id], event, decision)
    for row in sorted(book.expired(now_ms), key=lambda row: isinstance(row, Deployment)):
        rows = book.orgs.get(row.org_id)
        if rows is None or rows.table(row.TABLE).get(row.row_id) is not row:
            continue
        if _is_owed(rows, row):
            book.expire_at(now_ms, row)
            continue
        if isinstance(row, Replica | Instance):
            for window in rows.windows_of(row):
                _remove(book, rows, window, decision)
        _remove(book, rows, row, decision)


def _remove(book: Book, rows: OrgBook, row: Row, decision: Decision) -> None:
    del rows.table(row.TABLE)[row.row_id]
    decision.remove(row)
    if isinstance(row, Deployment):
        rows.live.pop(row.deployment_id, None)
    if rows.is_blank:
        del book.orgs[row.org_id]


def _is_owed(rows: OrgBook, row: Row) -> bool:
    match row:
        case Replica() | Instance():
            return any(not window.done for window in rows.windows_of(row))
        case Deployment():
            return any(f"{row.deployment_id}-r{n}" in rows.replicas for n in range(1, row.replicas_made + 1))
        case _:
            return False
