"""Heartbeats: most records are heartbeats, so a whole run is applied in one loop (rules B2, R4, R6)."""

from collections.abc import Sequence

from schemas.heartbeats import Heartbeat
from streams.billing.windows import Origin
from streams.lifecycle.replica import TERMINAL, ReplicaStatus
from streams.rules.decision import Dead, Decision
from streams.rules.store import RowStore
from streams.rules.unknown import unknown
from streams.rules.zombies import apply_late_sign


def apply_heartbeats(
    store: RowStore, heartbeats: Sequence[Heartbeat], origins: Sequence[Origin], decision: Decision
) -> list[tuple[int, Dead]]:
    """Set `last_health_check` of the running replica of each heartbeat (B2).

    Returns the index and the dead letter of each that names no replica of its org.
    """
    dead: list[tuple[int, Dead]] = []
    orgs, heartbeat = store.orgs, store.heartbeat
    for index, event in enumerate(heartbeats):
        rows = orgs.get(event.org_id)
        replica = rows.replicas.get(event.replica_id) if rows is not None else None
        if replica is None:
            dead.append((index, unknown("replica", event)))
        elif replica.status is ReplicaStatus.RUNNING:
            heartbeat(replica, origins[index].timestamp)
        elif replica.status in TERMINAL:
            apply_late_sign(store, replica, origins[index].timestamp, decision)
        else:
            decision.ignore("not_running")
    return dead
