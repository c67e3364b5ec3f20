"""`execlet.progress`: callbacks about the start and the failures of a replica."""

from typing import Annotated, Literal

from pydantic import Field

from schemas.base import NullIs, Wire
from schemas.ids import EventId, Message, OrgId, ReplicaId

ProgressStatus = Literal["STARTING", "RUNNING", "RESTARTING", "FAILED", "SYSTEM_FAILURE", "VM_CRASH"]
"""The execlet's status of a job (R2, R3)."""


class Progress(Wire):
    """A callback: the replica moves forward (R2) or fails (R3)."""

    event_id: EventId
    org_id: OrgId
    replica_id: ReplicaId
    status: ProgressStatus = Field(description="Status of the job.")
    message: Annotated[Message, NullIs("")] = Field(
        "", description="Free text from which R2 reads the step; cut at 4,096 characters."
    )
    healthy: bool | None = Field(
        None, description="With `RUNNING`: whether the replica is healthy; it decides instead of the message (R2)."
    )
