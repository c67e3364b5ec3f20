"""Replicas: submits them, changes their status, and opens and closes their windows (rules R1 to R5, B1, B2, P2)."""

from streams.lifecycle.replica import TERMINAL, FailReason, ReplicaStatus
from streams.rules import changes
from streams.rules.charging import close_windows, open_windows
from streams.rules.context import Turn
from streams.rules.orders import send_order
from streams.rules.rows import Deployment, Replica


def submit(turn: Turn, deployment: Deployment, count: int, reason: str) -> None:
    """Add `count` pending replicas to `deployment`, each with a `submit_job` order (P2, P5, P7)."""
    added = []
    for number in range(deployment.replicas_made + 1, deployment.replicas_made + count + 1):
        replica = Replica(
            org_id=deployment.org_id,
            replica_id=f"{deployment.deployment_id}-r{number}",
            deployment_id=deployment.deployment_id,
            status=ReplicaStatus.PENDING,
            created_at=turn.now,
        )
        turn.store.add(replica)
        changes.send_change(turn, replica, None, replica.status, reason)
        added.append(replica)
    turn.store.change(deployment, replicas_made=deployment.replicas_made + count)
    for replica in added:
        send_order(turn.store, replica, "submit_job", turn.now, turn.decision, deployment)


def abort(turn: Turn, deployment: Deployment, reason: str) -> None:
    """Stop every live replica of `deployment`, then send one `abort_job` for each (P4, P6)."""
    aborted = list(turn.rows.live_replicas(deployment.deployment_id))
    for replica in aborted:
        move(turn, replica, ReplicaStatus.STOPPED, reason)
    for replica in aborted:
        send_order(turn.store, replica, "abort_job", turn.now, turn.decision)


def move(turn: Turn, replica: Replica, to: ReplicaStatus, reason: str, fail_reason: FailReason | None = None) -> None:
    """Set the status of `replica`, open or close its windows, and update its deployment's count (R5, B1)."""
    deployment = turn.rows.deployments[replica.deployment_id]
    before = replica.status
    if before is ReplicaStatus.RUNNING:
        turn.store.change(deployment, current_replicas=deployment.current_replicas - 1)
        last_health_check = replica.health_checked_at
        close_windows(turn, replica)
        turn.store.change(replica, last_health_check=last_health_check)
    turn.store.change(
        replica, status=to, fail_reason=fail_reason, ended_at=turn.now if to in TERMINAL else replica.ended_at
    )
    if to is ReplicaStatus.RUNNING:
        _enter_running(turn, deployment, replica)
    changes.send_change(turn, replica, before, to, reason)


def _enter_running(turn: Turn, deployment: Deployment, replica: Replica) -> None:
    turn.store.change(
        deployment,
        current_replicas=deployment.current_replicas + 1,
        active_at=max(deployment.active_at, turn.now),
    )
    open_windows(turn, replica, replica.status, deployment)
    if not replica.open_windows:
        turn.store.change(replica, last_health_check=max(replica.last_health_check or 0, turn.now))
    elif replica.last_health_check is not None:
        turn.store.change(replica, last_health_check=None)
