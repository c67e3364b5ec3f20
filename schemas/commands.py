"""`user.commands`: requests of users. Each command gets one result (C1)."""

from typing import Annotated, Final, Literal

from pydantic import Field

from schemas.base import NullIs, Wire
from schemas.heads import CommandHead
from schemas.ids import (
    MAX_IDLE_TIMEOUT_S,
    MAX_MIN_REPLICAS,
    CommandId,
    DeploymentId,
    DiskGb,
    GpuCount,
    GpuType,
    InstanceId,
    Labels,
    OrgId,
    Text512,
)

__all__ = [
    "COMMANDS",
    "Command",
    "CommandHead",
    "CreateDeployment",
    "DeployInstance",
    "DestroyInstance",
    "StartInstance",
    "StopDeployment",
    "StopInstance",
    "Template",
    "target_field",
]


class CreateDeployment(Wire):
    """Create a deployment with its first replicas (P2)."""

    type: Literal["create_deployment"] = "create_deployment"
    command_id: CommandId
    org_id: OrgId
    deployment_id: DeploymentId
    model: Text512 = Field(description="The model to serve, 1 to 512 characters.")
    gpu_type: GpuType
    gpu_count: GpuCount
    serving: Annotated[Literal["dedicated", "serverless"], NullIs("dedicated")] = Field(
        "dedicated", description="`dedicated` is billed by running windows (B1); `serverless` has none (P8)."
    )
    min_replicas: Annotated[int, Field(ge=0, le=MAX_MIN_REPLICAS), NullIs(1)] = Field(
        1, description="Live replicas that the scaler maintains, 0 to 100 (P5)."
    )
    idle_timeout_s: Annotated[int, Field(ge=1, le=MAX_IDLE_TIMEOUT_S)] | None = Field(
        None, description="Seconds without a request after which it is paused, 1 to 31,536,000; absent: never (P6)."
    )
    labels: Annotated[Labels, NullIs({})] = Field(default_factory=dict)


class StopDeployment(Wire):
    """Stop a deployment and its replicas (P4)."""

    type: Literal["stop_deployment"] = "stop_deployment"
    command_id: CommandId
    org_id: OrgId
    deployment_id: DeploymentId


class Template(Wire):
    """How an instance is launched."""

    mode: Literal["ssh", "jupyter", "args"] = Field(description="How the image is started.")
    image: Text512 = Field(description="Container image, 1 to 512 characters.")


class DeployInstance(Wire):
    """Rent an instance (I1, I5, I6)."""

    type: Literal["deploy_instance"] = "deploy_instance"
    command_id: CommandId
    org_id: OrgId
    instance_id: InstanceId
    offer_id: Text512 = Field(description="The host's offer that the user accepted, 1 to 512 characters.")
    gpu_type: GpuType
    gpu_count: GpuCount
    disk_gb: DiskGb
    template: Template = Field(description="How the instance is launched.")
    gpus_releasable: Annotated[bool, NullIs(True)] = Field(
        default=True,
        description="Whether its GPUs may be released while it is stopped and the balance is 0 or less (I7).",
    )
    labels: Annotated[Labels, NullIs({})] = Field(default_factory=dict)


class StartInstance(Wire):
    """Start a stopped instance (I1, I6)."""

    type: Literal["start_instance"] = "start_instance"
    command_id: CommandId
    org_id: OrgId
    instance_id: InstanceId


class StopInstance(Wire):
    """Stop a running instance and keep its disk (I1)."""

    type: Literal["stop_instance"] = "stop_instance"
    command_id: CommandId
    org_id: OrgId
    instance_id: InstanceId


class DestroyInstance(Wire):
    """Destroy an instance and its disk (I1)."""

    type: Literal["destroy_instance"] = "destroy_instance"
    command_id: CommandId
    org_id: OrgId
    instance_id: InstanceId


COMMANDS: Final = (
    CreateDeployment,
    StopDeployment,
    DeployInstance,
    StartInstance,
    StopInstance,
    DestroyInstance,
)
"""The model of each command of users."""

Command = Annotated[
    CreateDeployment | StopDeployment | DeployInstance | StartInstance | StopInstance | DestroyInstance,
    Field(discriminator="type"),
]
"""Any record of `user.commands`, distinguished by `type`."""


def target_field(command: type[Wire]) -> str:
    """Return the name of the field that names what a command is about."""
    return next(name for name in command.model_fields if name in {"deployment_id", "instance_id", "window_id"})
