"""`inference.requests`: calls that users' deployments were asked to serve."""

from typing import Annotated

from pydantic import Field

from schemas.base import NullIs, Wire
from schemas.ids import MAX_INT64, DeploymentId, OrgId


class InferenceRequest(Wire):
    """One or more requests to a deployment: they keep it from idling (P6) and wake a paused one (P7)."""

    org_id: OrgId
    deployment_id: DeploymentId
    count: Annotated[int, Field(ge=1, le=MAX_INT64), NullIs(1)] = Field(
        1, description="How many requests this record stands for, 1 or more."
    )
