"""Seeded users of a fleet: plans of deployments and instances, and the commands that carry them out."""

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Final, Literal

from schemas.commands import Template
from sim.records import (
    MINUTE_MS,
    SECOND_MS,
    Record,
    create_deployment,
    deploy_instance,
    destroy_instance,
    request,
    start_instance,
    stop_deployment,
    stop_instance,
)

DEDICATED_GPUS: Final = ("h100.1x", "h100.2x", "a100.1x", "l40s.4x")
INSTANCE_GPUS: Final = ("rtx4090.1x", "rtx4090.2x", "a100.1x")

PRICES: Final = {
    "dedicated.h100.1x": "420",
    "dedicated.h100.2x": "815.5",
    "dedicated.a100.1x": "245",
    "dedicated.l40s.4x": "610.25",
    "instance.rtx4090.1x": "58",
    "instance.rtx4090.2x": "114",
    "instance.a100.1x": "231.75",
    "disk": "0.02",
}
"""Per hour, in JPY; `disk` per GB and hour."""

STOPPED_SHARE: Final = 0.3
IDLE_SHARE: Final = 0.2
SERVERLESS_SHARE: Final = 0.1
DESTROYED_SHARE: Final = 0.3
RELEASABLE_SHARE: Final = 0.7

INSTANCES_PER_ORG: Final = 20
"""Fewer than the 25 of I5, so that no deploy is rejected."""


@dataclass(frozen=True, slots=True)
class Deployment:
    """A planned deployment. Times are record timestamps in ms."""

    org: str
    name: str
    gpu: str
    min_replicas: int
    serving: Literal["dedicated", "serverless"]
    idle_timeout_s: int | None
    create_ms: int
    stop_ms: int | None
    """None: never."""
    requests_from_ms: int
    requests_every_ms: int
    """0: no requests."""


@dataclass(frozen=True, slots=True)
class Instance:
    """A planned instance. `actions`: (time in ms, `stop`, `start` or `destroy`)."""

    org: str
    name: str
    gpu: str
    disk_gb: int
    mode: Literal["ssh", "jupyter", "args"]
    releasable: bool
    deploy_ms: int
    actions: tuple[tuple[int, str], ...]


def org_names(orgs: int) -> list[str]:
    """Return the names of a fleet's orgs."""
    return [f"org-{n:04}" for n in range(1, orgs + 1)]


def plan_deployments(
    seed: int, orgs: int, deployments: int, replicas: int, *, start_ms: int, end_ms: int
) -> list[Deployment]:
    """Plan `deployments` with `replicas` initial replicas over `orgs` and the period. About a third stop early."""
    rng = Random(f"{seed}/deployments")
    names = org_names(orgs)
    span_ms = end_ms - start_ms
    plans = []
    for n in range(deployments):
        share = replicas * (n + 1) // deployments - replicas * n // deployments
        create_ms = start_ms + rng.randrange(max(1, int(span_ms * 0.4)))
        stop_ms = rng.randrange(create_ms + MINUTE_MS, end_ms + MINUTE_MS) if rng.random() < STOPPED_SHARE else None
        idle = rng.random() < IDLE_SHARE
        plans.append(
            Deployment(
                org=names[n % orgs],
                name=f"dep-{n:04}",
                gpu=rng.choice(DEDICATED_GPUS),
                min_replicas=share,
                serving="serverless" if rng.random() < SERVERLESS_SHARE else "dedicated",
                idle_timeout_s=rng.choice((600, 900, 1_800)) if idle else None,
                create_ms=create_ms,
                stop_ms=stop_ms,
                requests_from_ms=create_ms + rng.randrange(10, 600) * SECOND_MS,
                requests_every_ms=rng.choice((0, 45, 700, 2_400)) * SECOND_MS
                if idle
                else rng.choice((0, 300)) * SECOND_MS,
            )
        )
    return plans


def plan_instances(seed: int, orgs: int, instances: int, *, start_ms: int, end_ms: int) -> list[Instance]:
    """Plan `instances` and their users' actions over `orgs` and the period. Raises `ValueError` over 20 per org."""
    if instances > orgs * INSTANCES_PER_ORG:
        msg = f"{instances} instances need {-(-instances // INSTANCES_PER_ORG)} orgs or more, not {orgs}"
        raise ValueError(msg)
    rng = Random(f"{seed}/instances")
    names = org_names(orgs)
    plans = []
    for n in range(instances):
        deploy_ms = start_ms + rng.randrange(max(1, int((end_ms - start_ms) * 0.6)))
        actions, at = [], deploy_ms
        for action in rng.choice(
            ((), ("stop",), ("stop", "start"), ("stop", "start", "stop", "start"), ("stop", "stop"))
        ):
            at += rng.randrange(4, 80) * MINUTE_MS + rng.randrange(MINUTE_MS)
            actions.append((at, action))
        if rng.random() < DESTROYED_SHARE:
            actions.append((at + rng.randrange(1, 60) * MINUTE_MS, "destroy"))
        plans.append(
            Instance(
                org=names[n % orgs],
                name=f"vm-{n:05}",
                gpu=rng.choice(INSTANCE_GPUS),
                disk_gb=rng.choice((40, 100, 500)),
                mode=rng.choice(("ssh", "jupyter", "args")),
                releasable=rng.random() < RELEASABLE_SHARE,
                deploy_ms=deploy_ms,
                actions=tuple(actions),
            )
        )
    return plans


def deployment_commands(deployment: Deployment) -> Iterator[Record]:
    """Yield the create command and, if planned, the stop command."""
    options = {} if deployment.idle_timeout_s is None else {"idle_timeout_s": deployment.idle_timeout_s}
    yield create_deployment(
        deployment.create_ms,
        deployment.org,
        deployment.name,
        deployment.gpu,
        min_replicas=deployment.min_replicas,
        serving=deployment.serving,
        **options,
    )
    if deployment.stop_ms is not None:
        yield stop_deployment(deployment.stop_ms, deployment.org, deployment.name)


def deployment_requests(deployment: Deployment, end_ms: int) -> Iterator[Record]:
    """Yield the deployment's inference requests until `end_ms`."""
    if deployment.requests_every_ms:
        for at in range(deployment.requests_from_ms, end_ms, deployment.requests_every_ms):
            yield request(at, deployment.org, deployment.name, 1 + at % 17)


def instance_commands(instance: Instance) -> Iterator[Record]:
    """Yield the deploy command and the commands of the planned actions."""
    yield deploy_instance(
        instance.deploy_ms,
        instance.org,
        instance.name,
        instance.gpu,
        instance.disk_gb,
        template=Template(mode=instance.mode, image="base:12.8"),
        gpus_releasable=instance.releasable,
    )
    action = {"stop": stop_instance, "start": start_instance, "destroy": destroy_instance}
    for at, name in instance.actions:
        yield action[name](at, instance.org, instance.name)
