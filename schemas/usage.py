"""`croesus.usage`: the usage events that Croesus bills."""

from typing import Literal

from pydantic import Field

from schemas.base import Wire
from schemas.ids import Rfc3339
from schemas.times import rfc3339

UsageType = Literal["dedicated_inference_running", "instance_gpu_running", "instance_disk_stopped"]
"""The meter of a usage event: B1 for dedicated inference, I2 for instances."""


class Usage(Wire):
    """A part of a window, at most one clock minute (B4). The same (org, id) always has the same bytes (B11)."""

    id: str = Field(
        description="`<replica_id>:<interval_start>`, `<instance_id>:gpu:<interval_start>` or `<instance_id>:disk:…`."
    )
    type: UsageType = Field(description="The meter.")
    org_id: str = Field(description="The organisation that is billed.")
    deployment_id: str | None = Field(None, description="Dedicated inference: the deployment.")
    replica_id: str | None = Field(None, description="Dedicated inference: the replica.")
    instance_id: str | None = Field(None, description="Instances: the instance.")
    window_id: str = Field(description="The window.")
    profile: str = Field(description="The profile whose price applies.")
    quantity: int = Field(ge=1, description="1, or the disk's size in GB.")
    interval_start: Rfc3339 = Field(description="Start, inclusive.")
    interval_end: Rfc3339 = Field(description="End, exclusive.")
    duration_ms: int = Field(ge=1, le=60_000, description="Duration in ms, 1 to 60,000.")


def usage_id(meter: UsageType, owner_id: str, start_ms: int) -> str:
    """Return the id of a replica's or an instance's usage event that starts at `start_ms` (contract, "Out")."""
    part = {"dedicated_inference_running": "", "instance_gpu_running": "gpu:", "instance_disk_stopped": "disk:"}[meter]
    return f"{owner_id}:{part}{rfc3339(start_ms)}"


def usage(  # noqa: PLR0913, PLR0917 - one argument a field
    meter: UsageType,
    org_id: str,
    owner_id: str,
    deployment_id: str | None,
    window_id: str,
    profile: str,
    quantity: int,
    start_ms: int,
    end_ms: int,
) -> Usage:
    """Build the usage event of a replica or an instance for [`start_ms`, `end_ms`)."""
    dedicated = meter == "dedicated_inference_running"
    return Usage(
        id=usage_id(meter, owner_id, start_ms),
        type=meter,
        org_id=org_id,
        deployment_id=deployment_id if dedicated else None,
        replica_id=owner_id if dedicated else None,
        instance_id=None if dedicated else owner_id,
        window_id=window_id,
        profile=profile,
        quantity=quantity,
        interval_start=rfc3339(start_ms),
        interval_end=rfc3339(end_ms),
        duration_ms=end_ms - start_ms,
    )
