"""`execlet.orders` and `host.orders`: what Obol asks of the machines."""

from typing import Literal

from pydantic import Field

from schemas.base import Wire

ExecletOrderName = Literal["submit_job", "abort_job"]
"""What an execlet is asked to do with a replica (P2, P4)."""

HostOrderName = Literal["create", "start", "stop", "destroy", "release_gpus"]
"""What a host is asked to do with an instance (I1, I7, I10)."""


class ExecletOrder(Wire):
    """Start or end a replica's job (P2, P4)."""

    order_id: str = Field(description="`<replica_id>:<order>`.")
    org_id: str = Field(description="The organisation whose replica it is.")
    deployment_id: str = Field(description="The replica's deployment.")
    replica_id: str = Field(description="The replica.")
    order: ExecletOrderName = Field(description="What to do.")
    model: str | None = Field(None, description="With `submit_job`: the model to serve.")
    gpu_type: str | None = Field(None, description="With `submit_job`: the GPU model.")
    gpu_count: int | None = Field(None, description="With `submit_job`: GPUs.")


class HostOrder(Wire):
    """Have a host do something with an instance (I1)."""

    order_id: str = Field(description="`<instance_id>:<order>:<n>`, n = 1, 2, … per instance and order.")
    org_id: str = Field(description="The organisation whose instance it is.")
    instance_id: str = Field(description="The instance.")
    order: HostOrderName = Field(description="What to do.")
    attempt: int = Field(
        ge=1, description="From 1, anew each time that the state the order serves is entered; `release_gpus` counts up."
    )
