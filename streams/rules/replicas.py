"""Replicas: how they begin, move and end, and the windows this opens and closes (rules R1 to R5, B1, B2, P2)."""

from schemas.orders import ExecletOrder, ExecletOrderName
from streams.billing.prices import dedicated_profile
from streams.billing.windows import Window, WindowMeter, beat
from streams.lifecycle.replica import TERMINAL, FailReason, ReplicaStatus
from streams.rules import changes
from streams.rules.charging import close_window
from streams.rules.context import Turn
from streams.rules.rows import Deployment, Replica

ORDERS_TOPIC = "execlet.orders"


def submit(turn: Turn, deployment: Deployment, count: int, reason: str) -> None:
    """Make `count` new replicas of `deployment`, pending, each with its `submit_job` order (P2, P5, P7)."""
    made = []
    for _ in range(count):
        deployment.replicas_made += 1
        replica = Replica(
            org_id=deployment.org_id,
            replica_id=f"{deployment.deployment_id}-r{deployment.replicas_made}",
            deployment_id=deployment.deployment_id,
            status=ReplicaStatus.PENDING,
            created_at=turn.now,
        )
        turn.rows.replicas[replica.replica_id] = replica
        turn.rows.add_live(replica)
        changes.tell(turn, replica, None, replica.status, reason)
        made.append(replica)
    turn.decision.put(deployment)
    for replica in made:
        _order(turn, deployment, replica, "submit_job")


def abort(turn: Turn, deployment: Deployment, reason: str) -> None:
    """Stop every replica of `deployment` that is not terminal, then one `abort_job` each (P4, P6)."""
    aborted = list(turn.rows.live_of(deployment.deployment_id))
    for replica in aborted:
        move(turn, replica, ReplicaStatus.STOPPED, reason)
    for replica in aborted:
        _order(turn, deployment, replica, "abort_job")


def move(turn: Turn, replica: Replica, to: ReplicaStatus, reason: str, fail_reason: FailReason | None = None) -> None:
    """Take `replica` to `to`: its window closes or opens, its deployment's count follows (R5, B1)."""
    deployment = turn.rows.deployments[replica.deployment_id]
    before = replica.status
    if before is ReplicaStatus.RUNNING:
        _leave_running(turn, deployment, replica)
    replica.status = to
    replica.fail_reason = fail_reason
    if to is ReplicaStatus.RUNNING:
        _enter_running(turn, deployment, replica)
    if to in TERMINAL:
        replica.ended_at = turn.now
        turn.rows.live[replica.deployment_id].remove(replica)
        turn.book.expire_at(turn.now + turn.book.retention_ms, replica)
    changes.tell(turn, replica, before, to, reason)


def health_check(turn: Turn, replica: Replica) -> None:
    """A sign of life of a running replica (B2)."""
    if replica.window is not None:
        beat(replica.window, turn.now)
    else:
        replica.last_health_check = max(replica.last_health_check or 0, turn.now)
    turn.decision.put(replica)


def _enter_running(turn: Turn, deployment: Deployment, replica: Replica) -> None:
    deployment.current_replicas += 1
    deployment.active_at = max(deployment.active_at, turn.now)
    turn.decision.put(deployment)
    if deployment.serving != "dedicated":
        replica.last_health_check = max(replica.last_health_check or 0, turn.now)
        return
    opened_at = max(turn.now, replica.meter_free_at)
    replica.windows_made += 1
    profile = dedicated_profile(deployment.gpu_type, deployment.gpu_count)
    replica.window = Window(
        org_id=replica.org_id,
        window_id=f"{replica.replica_id}.w{replica.windows_made}",
        meter=WindowMeter.DEDICATED,
        owner_id=replica.replica_id,
        deployment_id=replica.deployment_id,
        profile=profile,
        quantity=1,
        opened_at=opened_at,
        billed_until=opened_at,
        last_health_check=max(replica.last_health_check or 0, opened_at),
        opened_by=turn.origin,
    )
    replica.last_health_check = None
    turn.rows.add_due(replica.window)
    turn.rows.count_units({}, {profile: 1})


def _leave_running(turn: Turn, deployment: Deployment, replica: Replica) -> None:
    deployment.current_replicas -= 1
    turn.decision.put(deployment)
    window = replica.window
    if window is None:
        return
    replica.window = None
    replica.last_health_check = window.last_health_check
    replica.meter_free_at = close_window(turn, window)
    turn.rows.count_units({window.profile: 1}, {})


def _order(turn: Turn, deployment: Deployment, replica: Replica, order: ExecletOrderName) -> None:
    submits = order == "submit_job"
    message = ExecletOrder.model_construct(
        order_id=f"{replica.replica_id}:{order}",
        org_id=replica.org_id,
        deployment_id=replica.deployment_id,
        replica_id=replica.replica_id,
        order=order,
        model=deployment.model if submits else None,
        gpu_type=deployment.gpu_type if submits else None,
        gpu_count=deployment.gpu_count if submits else None,
    )
    turn.decision.send(ORDERS_TOPIC, replica.org_id, turn.now, message)
