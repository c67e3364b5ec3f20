"""`lifecycle.changes`: every change of state, told once."""

from typing import Literal

from pydantic import Field

from schemas.base import Wire
from schemas.ids import Rfc3339

Kind = Literal["deployment", "replica", "instance"]
"""What a change is of."""


class LifecycleChange(Wire):
    """An entity moved from one state to another (R1, P1, I1)."""

    event_id: str = Field(description="`<kind>:<id>:<n>`, n = 1, 2, … per entity.")
    org_id: str = Field(description="The organisation whose entity it is.")
    kind: Kind = Field(description="What changed.")
    id: str = Field(description="The deployment's, replica's or instance's id.")
    from_: str | None = Field(
        None, validation_alias="from", serialization_alias="from", description="State before; absent when new."
    )
    to: str = Field(description="State after.")
    reason: str = Field(description="Why: a fail reason, a report's name, or a word of the contract's list.")
    error_code: str | None = Field(None, description="Instances: the code as it stands after the change (I3).")
    error_message: str | None = Field(None, description="Instances: the message as it stands after the change (I3).")
    at: Rfc3339 = Field(description="Time of the change.")
