"""`inference.requests`: inference requests to deployments."""

from typing import Annotated

from pydantic import Field

from schemas.base import NullIs, Wire
from schemas.ids import MAX_INT64, DeploymentId, OrgId


class InferenceRequest(Wire):
    """One or more requests to a deployment. They restart its idle timeout (P6) and resume it if it is paused (P7)."""

    org_id: OrgId
    deployment_id: DeploymentId
    count: Annotated[int, Field(ge=1, le=MAX_INT64), NullIs(1)] = Field(1, description="Number of requests, 1 or more.")
