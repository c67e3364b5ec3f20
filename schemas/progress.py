"""`execlet.progress`: what an execlet tells of a replica's start and end."""

from typing import Annotated, Literal

from pydantic import Field

from schemas.base import NullIs, Wire
from schemas.ids import EventId, Message, OrgId, ReplicaId

ProgressStatus = Literal["STARTING", "RUNNING", "RESTARTING", "FAILED", "SYSTEM_FAILURE", "VM_CRASH"]
"""An execlet's word for where a job stands (R2, R3)."""


class Progress(Wire):
    """A progress callback: it moves a replica forward (R2) or ends it (R3)."""

    event_id: EventId
    org_id: OrgId
    replica_id: ReplicaId
    status: ProgressStatus = Field(description="Where the job stands.")
    message: Annotated[Message, NullIs("")] = Field(
        "", description="Free text that R2 reads steps from; cut at 4,096 characters."
    )
