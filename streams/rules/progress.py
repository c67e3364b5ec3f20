"""Progress callbacks and heartbeats (rules R2 to R4, B2, P3)."""

from collections.abc import Sequence

from schemas.heartbeats import Heartbeat
from schemas.progress import Progress
from streams.billing.windows import Origin
from streams.lifecycle.deployment import DeploymentStatus, Trigger
from streams.lifecycle.replica import TERMINAL, ReplicaStatus, Stay, read_signal, step
from streams.rules import deployments, replicas
from streams.rules.book import Book
from streams.rules.context import Turn
from streams.rules.decision import Dead, Decision
from streams.rules.memory import remember, seen_before

TOPIC = "execlet.progress"


def apply_progress(turn: Turn, event: Progress) -> Dead | None:
    """A callback moves its replica forward, ends it, or is ignored with its reason (R2, R3, R4)."""
    if seen_before(turn, TOPIC, event.event_id):
        return None
    replica = turn.rows.replicas.get(event.replica_id)
    if replica is None:
        return unknown_replica(event.org_id, event.replica_id)
    remember(turn, TOPIC, event.event_id)
    signal = read_signal(event.status, event.message)
    if signal is None:
        turn.decision.ignore("terminal" if replica.status in TERMINAL else "says_nothing")
        return None
    move = step(replica.status, signal)
    if move is Stay.BEAT:
        replicas.health_check(turn, replica)
    elif isinstance(move, Stay):
        turn.decision.ignore(move.value)
    else:
        reason = "progress" if move.fail_reason is None else move.fail_reason.value
        replicas.move(turn, replica, move.to, reason, move.fail_reason)
        if move.fatal:
            _fail_deployment(turn, replica.deployment_id)
    return None


def apply_heartbeats(
    book: Book, beats: Sequence[Heartbeat], origins: Sequence[Origin], decision: Decision
) -> list[tuple[int, Dead]]:
    """A run of heartbeats, the hottest path: each refreshes its running replica (B2).

    Returns the position and the fault of each that is a dead letter.
    """
    dead: list[tuple[int, Dead]] = []
    changed = decision.changed
    orgs = book.orgs
    for position, event in enumerate(beats):
        rows = orgs.get(event.org_id)
        replica = rows.replicas.get(event.replica_id) if rows is not None else None
        if replica is None:
            dead.append((position, unknown_replica(event.org_id, event.replica_id)))
            continue
        if replica.status is not ReplicaStatus.RUNNING:
            decision.ignore("terminal" if replica.status in TERMINAL else "not_running")
            continue
        now = origins[position].timestamp
        health = replica if replica.window is None else replica.window
        if health.last_health_check is None or now > health.last_health_check:
            health.last_health_check = now
            changed[replica] = None
    return dead


def unknown_replica(org_id: str, replica_id: str) -> Dead:
    """No such replica in that org."""
    return Dead(
        "unknown_replica", f"org {org_id} has no replica {replica_id}; it may belong to another org or have left"
    )


def _fail_deployment(turn: Turn, deployment_id: str) -> None:
    """A fatal failure of the last replica that was not terminal ends the deployment (P3)."""
    deployment = turn.rows.deployments[deployment_id]
    if deployment.status is DeploymentStatus.CREATED and not turn.rows.live_of(deployment_id):
        deployments.move(turn, deployment, Trigger.REPLICAS_FAILED, "replicas_failed")
