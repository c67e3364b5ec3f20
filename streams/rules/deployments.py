"""Deployments: created, stopped, scaled, paused and resumed (rules P1 to P8, B20, B22)."""

from schemas.commands import CreateDeployment, StopDeployment
from schemas.requests import InferenceRequest
from streams.lifecycle.deployment import MACHINE, TERMINAL, DeploymentStatus, Trigger
from streams.lifecycle.machine import Stay
from streams.limits import MIN_FIRST_REPLICAS, SECOND_MS
from streams.meters import dedicated_profile
from streams.rules import changes, replicas
from streams.rules.context import Turn
from streams.rules.decision import LogLine
from streams.rules.results import Refusal, already_used
from streams.rules.rows import Deployment


def create(turn: Turn, command: CreateDeployment) -> Refusal | str:
    """Create a deployment with max(1, `min_replicas`) pending replicas (P2)."""
    deployment_id = command.deployment_id
    known = turn.rows.deployments.get(deployment_id)
    if known is not None:
        return Refusal(
            "ALREADY_EXISTS",
            f"deployment {deployment_id} is {known.status} already; create_deployment needs an id never used before",
        )
    if (used := already_used(turn, "deployment", deployment_id, "create_deployment")) is not None:
        return used
    profile = dedicated_profile(command.gpu_type, command.gpu_count)
    priced = command.serving != "dedicated" or turn.prices.at(profile, turn.now) is not None
    if turn.switches.billing_enabled and not priced:
        return Refusal(
            "UNPRICED_PROFILE",
            f"deployment {deployment_id} does not exist; create_deployment needs a price for {profile} and there is "
            f"none: publish one on croesus.prices, or choose a profile that has one",
        )
    deployment = Deployment(
        org_id=command.org_id,
        deployment_id=deployment_id,
        status=DeploymentStatus.CREATED,
        model=command.model,
        gpu_type=command.gpu_type,
        gpu_count=command.gpu_count,
        serving=command.serving,
        min_replicas=command.min_replicas,
        idle_timeout_s=command.idle_timeout_s,
        active_at=turn.now,
        created_at=turn.now,
        labels=command.labels,
    )
    turn.store.add(deployment)
    changes.send_change(turn, deployment, None, deployment.status, "deployed")
    count = max(MIN_FIRST_REPLICAS, deployment.min_replicas)
    replicas.submit(turn, deployment, count, "deployed")
    return f"deployment {deployment_id} is created with {count} pending replica{'s' if count > 1 else ''}"


def stop(turn: Turn, command: StopDeployment) -> Refusal | str:
    """Stop a deployment and all its replicas (P4)."""
    deployment = turn.rows.deployments.get(command.deployment_id)
    if deployment is None:
        return Refusal(
            "NOT_FOUND",
            f"deployment {command.deployment_id} is not known in org {command.org_id}; stop_deployment needs one "
            f"that is created or paused",
        )
    if isinstance(MACHINE.step(deployment.status, Trigger.STOP), Stay):
        return Refusal(
            "ILLEGAL_TRANSITION",
            f"deployment {deployment.deployment_id} is {deployment.status}, which is final; stop_deployment is allowed "
            f"while it is created or paused",
        )
    _end(turn, deployment, Trigger.STOP, "user")
    return f"deployment {deployment.deployment_id} is stopped"


def apply_request(turn: Turn, event: InferenceRequest, deployment: Deployment) -> None:
    """Apply an inference request: it restarts the idle timeout (P6), or resumes one without replicas (P7)."""
    turn.decision.counts["inference_requests", "count"] += event.count
    if deployment.status in TERMINAL:
        turn.decision.ignore("terminal")
        return
    created = deployment.status is DeploymentStatus.CREATED
    if created and deployment.idle_timeout_s is not None and turn.now > deployment.active_at:
        turn.store.change(deployment, active_at=turn.now)
    if created and turn.rows.live_replicas(deployment.deployment_id):
        return
    if turn.rows.org.suspended:
        turn.decision.ignore("org_suspended")
        return
    if not created:
        move(turn, deployment, Trigger.REQUEST, "request")
    replicas.submit(turn, deployment, max(MIN_FIRST_REPLICAS, deployment.min_replicas), "request")


def move(turn: Turn, deployment: Deployment, trigger: Trigger, reason: str) -> None:
    """Change the status of `deployment` on `trigger` (P1). Raises `AssertionError` if there is no transition."""
    before = deployment.status
    after = MACHINE.step(before, trigger)
    assert not isinstance(after, Stay), (
        f"deployment {deployment.deployment_id} is {before}: there is no transition on {trigger}"
    )
    created = after is DeploymentStatus.CREATED
    turn.store.change(
        deployment,
        status=after,
        active_at=max(deployment.active_at, turn.now) if created else deployment.active_at,
        ended_at=turn.now if after in TERMINAL else None,
    )
    changes.send_change(turn, deployment, before, after, reason)


def stop_suspended(turn: Turn) -> None:
    """Stop a suspended org's created deployments at a tick; in a dry run, only log it (B21, B22)."""
    if not turn.rows.org.suspended or not turn.switches.billing_enabled:
        return
    running = _created(turn)
    if turn.switches.live:
        for deployment in running:
            _end(turn, deployment, Trigger.ORG_SUSPENDED, "org_suspended")
    elif running:
        names = ", ".join(deployment.deployment_id for deployment in running)
        fields: dict[str, str | int | None] = {"org_id": turn.org_id, "deployments": names}
        turn.decision.log_lines.append(
            LogLine("info", "dry run: would stop the deployments of a suspended org", fields)
        )


def pause_idle(turn: Turn) -> None:
    """Pause deployments without a request, a start or a new running replica for their idle timeout (P6)."""
    for deployment in _created(turn):
        timeout_s = deployment.idle_timeout_s
        if timeout_s is not None and turn.now >= deployment.active_at + timeout_s * SECOND_MS:
            _end(turn, deployment, Trigger.IDLE, "idle")


def scale(turn: Turn) -> None:
    """Submit the replicas that created deployments lack; those still starting count (P5)."""
    for deployment in _created(turn):
        missing = deployment.min_replicas - len(turn.rows.live_replicas(deployment.deployment_id))
        if missing > 0:
            replicas.submit(turn, deployment, missing, "scaler")


def _created(turn: Turn) -> list[Deployment]:
    """Return the created deployments in order of their ids. A copy, since the caller changes them."""
    return [turn.rows.created[deployment_id] for deployment_id in sorted(turn.rows.created)]


def _end(turn: Turn, deployment: Deployment, trigger: Trigger, reason: str) -> None:
    move(turn, deployment, trigger, reason)
    replicas.abort(turn, deployment, reason)
