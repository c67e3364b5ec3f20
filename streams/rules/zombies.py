"""Zombies: replicas in a final state that still send signs of life. Their `abort_job` is sent again (rule R6)."""

from streams.limits import ZOMBIE_ABORT_INTERVAL_MS, ZOMBIE_AFTER_MS
from streams.rules.decision import Decision
from streams.rules.orders import send_order
from streams.rules.rows import Instance, LateSigns, Replica
from streams.rules.store import RowStore


def apply_late_sign(store: RowStore, replica: Replica, now: int, decision: Decision) -> None:
    """Apply a sign of life of a terminal replica: it counts as ignored, and may send `abort_job` (R4, R6)."""
    decision.ignore("terminal")
    ended_at = replica.ended_at
    if ended_at is None or now < ended_at + ZOMBIE_AFTER_MS or store.latest_tick <= ended_at:
        return
    ordered_at = replica.late_signs.ordered_at if replica.late_signs is not None else None
    is_due = ordered_at is None or now >= ordered_at + ZOMBIE_ABORT_INTERVAL_MS
    record_late_sign(store, replica, now, ordered_at=now if is_due else ordered_at)
    if is_due:
        send_order(store, replica, "abort_job", now, decision)


def record_late_sign(store: RowStore, entity: Replica | Instance, now: int, ordered_at: int | None = None) -> None:
    """Record a sign of life of an ended entity; its row's retention starts again (C5)."""
    signs = entity.late_signs or LateSigns(now, now, None)
    store.change(entity, late_signs=LateSigns(min(signs.first_at, now), max(signs.last_at, now), ordered_at))
