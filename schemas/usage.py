"""`croesus.usage`: the usage events that Croesus bills."""

from typing import Literal

from pydantic import Field

from schemas.base import Wire
from schemas.ids import Rfc3339

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
    labels: dict[str, str] | None = Field(
        None, description="The labels of its deployment or instance, keys sorted; absent without any (C6)."
    )
