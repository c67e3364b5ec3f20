"""A record on its way to a topic, and one builder for each kind that the stand-ins send."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from schemas.accounts import BalanceUpdated, OrgReinstated, OrgSuspended
from schemas.commands import (
    CreateDeployment,
    DeployInstance,
    DestroyInstance,
    StartInstance,
    StopDeployment,
    StopInstance,
    Template,
)
from schemas.heartbeats import Heartbeat
from schemas.prices import Price
from schemas.progress import Progress, ProgressStatus
from schemas.reports import LaunchFailed, OtherReport, OtherReportName
from schemas.requests import InferenceRequest
from topics import catalogue
from topics.codec import encode

SECOND_MS: Final = 1_000
MINUTE_MS: Final = 60 * SECOND_MS
HOUR_MS: Final = 60 * MINUTE_MS
TICK_DELAY_MS: Final = 2 * SECOND_MS
"""A tick comes this long after its minute has begun (contract, "House": ticks 2 s after the minute)."""

CURRENCY: Final = "JPY"


@dataclass(frozen=True, slots=True)
class Record:
    """One record: its time in ms, its topic without namespace, its key (the org; a profile; none), its value."""

    timestamp_ms: int
    topic: str
    key: str | None
    value: bytes | None
    partition: int | None = None
    """Given for ticks and prices; for the others the org decides."""


def tick(at_ms: int, partition: int) -> Record:
    """Tell one partition what time it is."""
    return Record(at_ms, catalogue.CLOCK.name, None, b'{"type":"tick"}', partition)


def price(at_ms: int, profile: str, amount: str | None) -> Record:
    """Set a profile's price per hour from `at_ms` on; none removes it."""
    value = None if amount is None else encode(Price(profile=profile, price=amount, currency=CURRENCY))
    return Record(at_ms, catalogue.PRICES.name, profile, value, 0)


def balance(at_ms: int, org: str, amount: str, sequence: int) -> Record:
    """State an org's whole balance."""
    update = BalanceUpdated(event_id=f"balance-{sequence}", org_id=org, balance=amount, sequence=sequence)
    return Record(at_ms, catalogue.ACCOUNTS.name, org, encode(update))


def suspended(at_ms: int, org: str) -> Record:
    """Suspend an org."""
    return Record(at_ms, catalogue.ACCOUNTS.name, org, encode(OrgSuspended(event_id=f"suspended-{at_ms}", org_id=org)))


def reinstated(at_ms: int, org: str) -> Record:
    """End an org's suspension."""
    event = OrgReinstated(event_id=f"reinstated-{at_ms}", org_id=org)
    return Record(at_ms, catalogue.ACCOUNTS.name, org, encode(event))


def create_deployment(at_ms: int, org: str, deployment: str, gpu: str, **options: Any) -> Record:
    """Create a deployment; `gpu` is like `h100.2x`, `options` are the command's other fields."""
    gpu_type, gpu_count = _gpu(gpu)
    command = CreateDeployment(
        command_id=f"create-{deployment}",
        org_id=org,
        deployment_id=deployment,
        gpu_type=gpu_type,
        gpu_count=gpu_count,
        **{"model": "llama-3.3-70b", **options},
    )
    return _command(at_ms, command)


def stop_deployment(at_ms: int, org: str, deployment: str) -> Record:
    """Stop a deployment."""
    return _command(
        at_ms, StopDeployment(command_id=f"stop-{deployment}-{at_ms}", org_id=org, deployment_id=deployment)
    )


def deploy_instance(at_ms: int, org: str, instance: str, gpu: str, disk_gb: int, **options: Any) -> Record:
    """Deploy an instance; `gpu` is like `rtx4090.1x`, `options` are the command's other fields."""
    gpu_type, gpu_count = _gpu(gpu)
    command = DeployInstance(
        command_id=f"deploy-{instance}",
        org_id=org,
        instance_id=instance,
        offer_id=f"offer-{gpu}",
        gpu_type=gpu_type,
        gpu_count=gpu_count,
        disk_gb=disk_gb,
        **{"template": Template(mode="ssh", image="base:12.8"), **options},
    )
    return _command(at_ms, command)


def start_instance(at_ms: int, org: str, instance: str) -> Record:
    """Start a stopped instance."""
    return _command(at_ms, StartInstance(command_id=f"start-{instance}-{at_ms}", org_id=org, instance_id=instance))


def stop_instance(at_ms: int, org: str, instance: str) -> Record:
    """Stop a running instance."""
    return _command(at_ms, StopInstance(command_id=f"stop-{instance}-{at_ms}", org_id=org, instance_id=instance))


def destroy_instance(at_ms: int, org: str, instance: str) -> Record:
    """Destroy an instance with its disk."""
    return _command(at_ms, DestroyInstance(command_id=f"destroy-{instance}-{at_ms}", org_id=org, instance_id=instance))


def request(at_ms: int, org: str, deployment: str, count: int = 1) -> Record:
    """Send inference requests to a deployment."""
    model = InferenceRequest(org_id=org, deployment_id=deployment, count=count)
    return Record(at_ms, catalogue.REQUESTS.name, org, encode(model))


def progress(at_ms: int, org: str, replica: str, n: int, status: ProgressStatus, message: str) -> Record:
    """Report a replica's n-th step."""
    event = Progress(event_id=f"{replica}.p{n}", org_id=org, replica_id=replica, status=status, message=message)
    return Record(at_ms, catalogue.PROGRESS.name, org, encode(event))


def report(at_ms: int, org: str, instance: str, n: int, name: OtherReportName, message: str | None = None) -> Record:
    """Report what a host found, its n-th report about this instance."""
    event = OtherReport(event_id=f"{instance}.h{n}", org_id=org, instance_id=instance, report=name, message=message)
    return Record(at_ms, catalogue.REPORTS.name, org, encode(event))


def launch_failed(at_ms: int, org: str, instance: str, n: int, message: str, *, reached_host: bool) -> Record:
    """Report a launch that came to nothing."""
    event = LaunchFailed(
        event_id=f"{instance}.h{n}", org_id=org, instance_id=instance, reached_host=reached_host, message=message
    )
    return Record(at_ms, catalogue.REPORTS.name, org, encode(event))


@lru_cache(maxsize=65_536)
def _beat(org: str, replica: str) -> bytes:
    return encode(Heartbeat(org_id=org, replica_id=replica))


def heartbeat(at_ms: int, org: str, replica: str) -> Record:
    """Say that a replica is alive. The same bytes each time, so they are kept."""
    return Record(at_ms, catalogue.HEARTBEATS.name, org, _beat(org, replica))


def _command(
    at_ms: int,
    command: CreateDeployment | StopDeployment | DeployInstance | StartInstance | StopInstance | DestroyInstance,
) -> Record:
    return Record(at_ms, catalogue.COMMANDS.name, command.org_id, encode(command))


def _gpu(gpu: str) -> tuple[str, int]:
    gpu_type, _, count = gpu.rpartition(".")
    return gpu_type, int(count.removesuffix("x"))
