"""Deployments: created, stopped, scaled, paused and resumed (rules P1 to P8, B20, B22)."""

from schemas.commands import CreateDeployment, StopDeployment
from schemas.requests import InferenceRequest
from streams.billing.prices import dedicated_profile
from streams.lifecycle.deployment import TERMINAL, DeploymentStatus, Trigger, step
from streams.limits import MIN_FIRST_REPLICAS, SECOND_MS
from streams.rules import changes, replicas
from streams.rules.context import Turn
from streams.rules.decision import Dead, Note
from streams.rules.results import Refusal
from streams.rules.rows import Deployment


def create(turn: Turn, command: CreateDeployment) -> Refusal | str:
    """Begin a deployment with max(1, `min_replicas`) pending replicas (P2)."""
    deployment_id = command.deployment_id
    known = turn.rows.deployments.get(deployment_id)
    if known is not None:
        return Refusal(
            "ALREADY_EXISTS",
            f"deployment {deployment_id} is {known.status} already; create_deployment needs an id never used before",
        )
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
    )
    turn.rows.deployments[deployment_id] = turn.rows.created[deployment_id] = deployment
    changes.tell(turn, deployment, None, deployment.status, "deployed")
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
    if step(deployment.status, Trigger.STOP) is None:
        return Refusal(
            "ILLEGAL_TRANSITION",
            f"deployment {deployment.deployment_id} is {deployment.status}, which is final; stop_deployment is allowed "
            f"while it is created or paused",
        )
    _end(turn, deployment, Trigger.STOP, "user")
    return f"deployment {deployment.deployment_id} is stopped"


def apply_request(turn: Turn, event: InferenceRequest) -> Dead | None:
    """An inference request keeps a deployment from idling (P6), or brings one without replicas back (P7)."""
    deployment = turn.rows.deployments.get(event.deployment_id)
    if deployment is None:
        return unknown_deployment(event.org_id, event.deployment_id)
    turn.decision.counts["inference_requests", "count"] += event.count
    if deployment.status in TERMINAL:
        turn.decision.ignore("terminal")
        return None
    created = deployment.status is DeploymentStatus.CREATED
    if created and deployment.idle_timeout_s is not None and turn.now > deployment.active_at:
        deployment.active_at = turn.now
        turn.decision.put(deployment)
    if created and turn.rows.live_of(deployment.deployment_id):
        return None
    if turn.rows.org.suspended:
        turn.decision.ignore("org_suspended")
        return None
    if not created:
        move(turn, deployment, Trigger.REQUEST, "request")
    replicas.submit(turn, deployment, max(MIN_FIRST_REPLICAS, deployment.min_replicas), "request")
    return None


def unknown_deployment(org_id: str, deployment_id: str) -> Dead:
    """No such deployment in that org."""
    return Dead("unknown_deployment", f"org {org_id} has no deployment {deployment_id}; it may belong to another org")


def move(turn: Turn, deployment: Deployment, trigger: Trigger, reason: str) -> None:
    """Take `deployment` where `trigger` leads (P1); a move that the table lacks is our own fault."""
    before = deployment.status
    after = step(before, trigger)
    if after is None:
        msg = f"deployment {deployment.deployment_id} is {before}: {trigger} is no move from there"
        raise AssertionError(msg)
    deployment.status = after
    if after is DeploymentStatus.CREATED:
        turn.rows.created[deployment.deployment_id] = deployment
        deployment.active_at = max(deployment.active_at, turn.now)
    else:
        turn.rows.created.pop(deployment.deployment_id, None)
    if after in TERMINAL:
        deployment.ended_at = turn.now
        turn.book.expire_at(turn.now + turn.book.retention_ms, deployment)
    changes.tell(turn, deployment, before, after, reason)


def stop_suspended(turn: Turn) -> None:
    """Stop a suspended org's created deployments at the tick, or, in a dry run, say so (B21, B22)."""
    if not turn.rows.org.suspended or not turn.switches.billing_enabled:
        return
    running = _created(turn)
    if turn.switches.live:
        for deployment in running:
            _end(turn, deployment, Trigger.ORG_SUSPENDED, "org_suspended")
    elif running:
        names = ", ".join(deployment.deployment_id for deployment in running)
        fields: dict[str, str | int | None] = {"org_id": turn.org_id, "deployments": names}
        turn.decision.notes.append(Note("info", "dry run: would stop the deployments of a suspended org", fields))


def pause_idle(turn: Turn) -> None:
    """Pause what has had no request, no start and no new replica for its idle timeout (P6)."""
    for deployment in _created(turn):
        timeout_s = deployment.idle_timeout_s
        if timeout_s is not None and turn.now >= deployment.active_at + timeout_s * SECOND_MS:
            _end(turn, deployment, Trigger.IDLE, "idle")


def scale(turn: Turn) -> None:
    """Submit the replicas that created deployments lack; those still starting count as there (P5)."""
    for deployment in _created(turn):
        missing = deployment.min_replicas - len(turn.rows.live_of(deployment.deployment_id))
        if missing > 0:
            replicas.submit(turn, deployment, missing, "scaler")


def _created(turn: Turn) -> list[Deployment]:
    """The created deployments as they are now, in order of their ids."""
    return [turn.rows.created[deployment_id] for deployment_id in sorted(turn.rows.created)]


def _end(turn: Turn, deployment: Deployment, trigger: Trigger, reason: str) -> None:
    move(turn, deployment, trigger, reason)
    replicas.abort(turn, deployment, reason)
