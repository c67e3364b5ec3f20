"""`operator.commands`: commands of those who run the platform. Each gets one result (C1)."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from schemas.base import Wire
from schemas.ids import CommandId, OrgId, Text512, WindowId
from schemas.times import parse_any_rfc3339


def _checked(text: str) -> str:
    parse_any_rfc3339(text)
    return text


AnyRfc3339 = Annotated[str, AfterValidator(_checked)]
"""A time on its way in: RFC 3339 with at most 3 decimals and any offset."""


class CreditWindow(Wire):
    """Credit what was billed of a window between two times (B13)."""

    type: Literal["credit_window"]
    command_id: CommandId
    org_id: OrgId
    window_id: WindowId
    from_: AnyRfc3339 = Field(alias="from", description="Start, inclusive.")
    until: AnyRfc3339 = Field(description="End, exclusive; after `from`.")
    note: Text512 | None = Field(None, description="The reason; it is in each credit. 1 to 512 characters.")

    @field_validator("until")
    @classmethod
    def _is_after_from(cls, until: str, info: ValidationInfo) -> str:
        start = info.data.get("from_")
        if start is not None and parse_any_rfc3339(until) <= parse_any_rfc3339(start):
            msg = f"must be after from, {start}"
            raise ValueError(msg)
        return until


OperatorCommand = CreditWindow
"""Any record of `operator.commands`."""
