"""Progress callbacks (rules R2 to R4, B2, P3)."""

from schemas.progress import Progress
from streams.lifecycle.deployment import DeploymentStatus, Trigger
from streams.lifecycle.machine import Stay
from streams.lifecycle.replica import MACHINE, TERMINAL, read_signal
from streams.rules import deployments, replicas
from streams.rules.context import Turn
from streams.rules.rows import Replica
from streams.rules.zombies import apply_late_sign


def apply_progress(turn: Turn, event: Progress, replica: Replica) -> None:
    """Apply a callback: it changes the status of its replica, or is ignored with its reason (R2, R3, R4)."""
    if event.status == "RUNNING" and replica.status in TERMINAL:
        apply_late_sign(turn.store, replica, turn.now, turn.decision)
        return
    signal = read_signal(event.status, event.message, healthy=event.healthy)
    if signal is None:
        turn.decision.ignore("terminal" if replica.status in TERMINAL else "says_nothing")
        return
    move = MACHINE.step(replica.status, signal)
    if move is Stay.HEARTBEAT:
        turn.store.heartbeat(replica, turn.now)
    elif isinstance(move, Stay):
        turn.decision.ignore(move.value)
    else:
        reason = "progress" if move.fail_reason is None else move.fail_reason.value
        replicas.move(turn, replica, move.to, reason, move.fail_reason)
        if move.fatal:
            _fail_deployment(turn, replica.deployment_id)


def _fail_deployment(turn: Turn, deployment_id: str) -> None:
    """Fail a deployment whose last live replica has failed fatally (P3)."""
    deployment = turn.rows.deployments[deployment_id]
    if deployment.status is DeploymentStatus.CREATED and not turn.rows.live_replicas(deployment_id):
        deployments.move(turn, deployment, Trigger.REPLICAS_FAILED, "replicas_failed")
