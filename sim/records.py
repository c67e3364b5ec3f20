"""A record to be sent, and a function for each kind that the stand-ins send."""

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
from schemas.operator import CreditWindow
from schemas.prices import Price
from schemas.progress import Progress, ProgressStatus
from schemas.reports import LaunchFailed, OtherReport, OtherReportName
from schemas.requests import InferenceRequest
from schemas.times import rfc3339
from topics import catalogue
from topics.codec import encode

SECOND_MS: Final = 1_000
MINUTE_MS: Final = 60 * SECOND_MS
HOUR_MS: Final = 60 * MINUTE_MS
TICK_DELAY_MS: Final = 2 * SECOND_MS
"""The time from the start of a minute to its tick."""

CURRENCY: Final = "JPY"


@dataclass(frozen=True, slots=True)
class Record:
    """A record. `topic`: without the namespace; `key`: the org, a profile, or None."""

    timestamp_ms: int
    topic: str
    key: str | None
    value: bytes | None
    partition: int | None = None
    """Set for ticks and prices; otherwise the org determines it."""


def tick(at_ms: int, partition: int) -> Record:
    """Return a tick for one partition."""
    return Record(at_ms, catalogue.CLOCK.name, None, b'{"type":"tick"}', partition)


def price(at_ms: int, profile: str, amount: str | None) -> Record:
    """Set a profile's price per hour from `at_ms` on; None removes it."""
    value = None if amount is None else encode(Price(profile=profile, price=amount, currency=CURRENCY))
    return Record(at_ms, catalogue.PRICES.name, profile, value, 0)


def balance(at_ms: int, org: str, amount: str, sequence: int) -> Record:
    """Publish an org's balance."""
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
    """Create a deployment. `gpu`: such as `h100.2x`; `options`: other fields of the command."""
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
    """Deploy an instance. `gpu`: such as `rtx4090.1x`; `options`: other fields of the command."""
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
    """Destroy an instance and its disk."""
    return _command(at_ms, DestroyInstance(command_id=f"destroy-{instance}-{at_ms}", org_id=org, instance_id=instance))


def credit_window(at_ms: int, org: str, window_id: str, from_ms: int, until_ms: int, note: str) -> Record:
    """Credit a stretch of a window, as `obol credit` does."""
    command = CreditWindow(
        type="credit_window",
        command_id=f"credit-{window_id}-{at_ms}",
        org_id=org,
        window_id=window_id,
        from_=rfc3339(from_ms),
        until=rfc3339(until_ms),
        note=note,
    )
    return Record(at_ms, catalogue.OPERATOR_COMMANDS.name, org, encode(command))


def request(at_ms: int, org: str, deployment: str, count: int = 1) -> Record:
    """Send inference requests to a deployment."""
    model = InferenceRequest(org_id=org, deployment_id=deployment, count=count)
    return Record(at_ms, catalogue.REQUESTS.name, org, encode(model))


def progress(at_ms: int, org: str, replica: str, n: int, status: ProgressStatus, message: str) -> Record:
    """Send the n-th callback of a replica."""
    event = Progress(event_id=f"{replica}.p{n}", org_id=org, replica_id=replica, status=status, message=message)
    return Record(at_ms, catalogue.PROGRESS.name, org, encode(event))


def report(at_ms: int, org: str, instance: str, n: int, name: OtherReportName, message: str | None = None) -> Record:
    """Send the n-th report about an instance."""
    event = OtherReport(event_id=f"{instance}.h{n}", org_id=org, instance_id=instance, report=name, message=message)
    return Record(at_ms, catalogue.REPORTS.name, org, encode(event))


def launch_failed(at_ms: int, org: str, instance: str, n: int, message: str, *, reached_host: bool) -> Record:
    """Send the report of a failed launch."""
    event = LaunchFailed(
        event_id=f"{instance}.h{n}", org_id=org, instance_id=instance, reached_host=reached_host, message=message
    )
    return Record(at_ms, catalogue.REPORTS.name, org, encode(event))


@lru_cache(maxsize=65_536)
def _heartbeat(org: str, replica: str) -> bytes:
    return encode(Heartbeat(org_id=org, replica_id=replica))


def heartbeat(at_ms: int, org: str, replica: str) -> Record:
    """Send a heartbeat. Its bytes are cached, since they do not change."""
    return Record(at_ms, catalogue.HEARTBEATS.name, org, _heartbeat(org, replica))


def _command(
    at_ms: int,
    command: CreateDeployment | StopDeployment | DeployInstance | StartInstance | StopInstance | DestroyInstance,
) -> Record:
    return Record(at_ms, catalogue.COMMANDS.name, command.org_id, encode(command))


def _gpu(gpu: str) -> tuple[str, int]:
    gpu_type, _, count = gpu.rpartition(".")
    return gpu_type, int(count.removesuffix("x"))
