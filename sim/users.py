"""Seeded users of a fleet: what each does with its deployments and instances, as lives for the agenda."""

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
"""Fewer than the 25 of I5, so that a fleet's deploys are not refused."""


@dataclass(frozen=True, slots=True)
class Deployment:
    """One deployment of a plan. Times in ms of log time."""

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
    """0: it gets no requests."""


@dataclass(frozen=True, slots=True)
class Instance:
    """One instance of a plan; `moves` are (time in ms, `stop` `start` `destroy`)."""

    org: str
    name: str
    gpu: str
    disk_gb: int
    mode: Literal["ssh", "jupyter", "args"]
    releasable: bool
    deploy_ms: int
    moves: tuple[tuple[int, str], ...]


def org_names(orgs: int) -> list[str]:
    """Names of a fleet's orgs."""
    return [f"org-{n:04}" for n in range(1, orgs + 1)]


def plan_deployments(
    seed: int, orgs: int, deployments: int, replicas: int, *, start_ms: int, end_ms: int
) -> list[Deployment]:
    """Spread `deployments` with `replicas` first replicas over `orgs` and over the time; about a third end early."""
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
    """Spread `instances` over `orgs` and over the time, with their users' moves. Raises ValueError over 20 an org."""
    if instances > orgs * INSTANCES_PER_ORG:
        msg = f"{instances} instances need {-(-instances // INSTANCES_PER_ORG)} orgs or more, not {orgs}"
        raise ValueError(msg)
    rng = Random(f"{seed}/instances")
    names = org_names(orgs)
    plans = []
    for n in range(instances):
        deploy_ms = start_ms + rng.randrange(max(1, int((end_ms - start_ms) * 0.6)))
        moves, at = [], deploy_ms
        for move in rng.choice(
            ((), ("stop",), ("stop", "start"), ("stop", "start", "stop", "start"), ("stop", "stop"))
        ):
            at += rng.randrange(4, 80) * MINUTE_MS + rng.randrange(MINUTE_MS)
            moves.append((at, move))
        if rng.random() < DESTROYED_SHARE:
            moves.append((at + rng.randrange(1, 60) * MINUTE_MS, "destroy"))
        plans.append(
            Instance(
                org=names[n % orgs],
                name=f"vm-{n:05}",
                gpu=rng.choice(INSTANCE_GPUS),
                disk_gb=rng.choice((40, 100, 500)),
                mode=rng.choice(("ssh", "jupyter", "args")),
                releasable=rng.random() < RELEASABLE_SHARE,
                deploy_ms=deploy_ms,
                moves=tuple(moves),
            )
        )
    return plans


def commands_of(deployment: Deployment) -> Iterator[Record]:
    """Create the deployment and, if planned, stop it."""
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


def requests_of(deployment: Deployment, end_ms: int) -> Iterator[Record]:
    """Send the deployment's requests until `end_ms`."""
    if deployment.requests_every_ms:
        for at in range(deployment.requests_from_ms, end_ms, deployment.requests_every_ms):
            yield request(at, deployment.org, deployment.name, 1 + at % 17)


def moves_of(instance: Instance) -> Iterator[Record]:
    """Deploy the instance and make its user's moves."""
    yield deploy_instance(
        instance.deploy_ms,
        instance.org,
        instance.name,
        instance.gpu,
        instance.disk_gb,
        template=Template(mode=instance.mode, image="base:12.8"),
        gpus_releasable=instance.releasable,
    )
    move = {"stop": stop_instance, "start": start_instance, "destroy": destroy_instance}
    for at, name in instance.moves:
        yield move[name](at, instance.org, instance.name)
