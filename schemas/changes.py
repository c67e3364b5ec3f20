"""`lifecycle.changes`: one message for each change of state."""

from typing import Literal

from pydantic import Field

from schemas.base import Wire
from schemas.ids import Rfc3339

Kind = Literal["deployment", "replica", "instance"]
"""The kind of entity that changed."""


class LifecycleChange(Wire):
    """An entity changed from one state to another (R1, P1, I1)."""

    event_id: str = Field(description="`<kind>:<id>:<n>`, n = 1, 2, … per entity.")
    org_id: str = Field(description="The organisation that the entity belongs to.")
    kind: Kind = Field(description="The kind of entity that changed.")
    id: str = Field(description="The deployment's, replica's or instance's id.")
    from_: str | None = Field(
        None,
        validation_alias="from",
        serialization_alias="from",
        description="Previous state; absent for a new entity.",
    )
    to: str = Field(description="New state.")
    reason: str = Field(description="The reason: a fail reason, a report's name, or one of the contract's list.")
    error_code: str | None = Field(None, description="Instances: the error code after the change (I3).")
    error_message: str | None = Field(None, description="Instances: the error message after the change (I3).")
    at: Rfc3339 = Field(description="Time of the change.")
