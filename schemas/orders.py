"""`execlet.orders` and `host.orders`: instructions to execlets and hosts."""

from typing import Literal

from pydantic import Field

from schemas.base import Wire

ExecletOrderName = Literal["submit_job", "abort_job"]
"""Instructions about a replica (P2, P4)."""

HostOrderName = Literal["create", "start", "stop", "destroy", "release_gpus"]
"""Instructions about an instance (I1, I7, I10)."""


class ExecletOrder(Wire):
    """Start or stop a replica's job (P2, P4)."""

    order_id: str = Field(
        description="`<replica_id>:<order>`, from the second attempt on `<replica_id>:<order>:<attempt>`."
    )
    org_id: str = Field(description="The organisation that the replica belongs to.")
    deployment_id: str = Field(description="The replica's deployment.")
    replica_id: str = Field(description="The replica.")
    order: ExecletOrderName = Field(description="The instruction.")
    attempt: int = Field(ge=1, description="From 1 for each replica and order (R6).")
    model: str | None = Field(None, description="With `submit_job`: the model to serve.")
    gpu_type: str | None = Field(None, description="With `submit_job`: the GPU model.")
    gpu_count: int | None = Field(None, description="With `submit_job`: the number of GPUs.")


class HostOrder(Wire):
    """An instruction to the host of an instance (I1)."""

    order_id: str = Field(description="`<instance_id>:<order>:<n>`, n = 1, 2, … per instance and order.")
    org_id: str = Field(description="The organisation that the instance belongs to.")
    instance_id: str = Field(description="The instance.")
    order: HostOrderName = Field(description="The instruction.")
    attempt: int = Field(
        ge=1,
        description="1, 2, …; from 1 again when the state that the order serves is entered; of `release_gpus`, never.",
    )
