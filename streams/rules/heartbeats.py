"""Heartbeats: most records are heartbeats, so a whole run is applied in one loop (rules B2, R4, R6)."""

from collections.abc import Sequence
from typing import Protocol

from streams.lifecycle.replica import TERMINAL, ReplicaStatus
from streams.rules.decision import Decision
from streams.rules.store import RowStore
from streams.rules.zombies import apply_late_sign


class HeartbeatIds(Protocol):
    """The ids in a heartbeat."""

    @property
    def org_id(self) -> str:
        """The org."""

    @property
    def replica_id(self) -> str:
        """The replica, of that org."""


def apply_heartbeats(
    store: RowStore, heartbeats: Sequence[HeartbeatIds], times: Sequence[int], decision: Decision
) -> list[int]:
    """Set `last_health_check` of the running replica of each heartbeat (B2). `times`: of the records, in ms.

    Returns the index of each heartbeat whose org has no such replica.
    """
    unknown: list[int] = []
    orgs, record = store.orgs, store.heartbeat
    for index, (heartbeat, at_ms) in enumerate(zip(heartbeats, times, strict=True)):
        rows = orgs.get(heartbeat.org_id)
        replica = rows.replicas.get(heartbeat.replica_id) if rows is not None else None
        if replica is None:
            unknown.append(index)
        elif replica.status is ReplicaStatus.RUNNING:
            record(replica, at_ms)
        elif replica.status in TERMINAL:
            apply_late_sign(store, replica, at_ms, decision)
        else:
            decision.ignore("not_running")
    return unknown
