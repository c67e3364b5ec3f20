"""`command.results`: the result of each command."""

from typing import Literal

from pydantic import Field

from schemas.base import Wire
from schemas.ids import Rfc3339

ResultCode = Literal[
    "INVALID",
    "ORG_SUSPENDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "ILLEGAL_TRANSITION",
    "INSTANCE_LIMIT",
    "UNPRICED_PROFILE",
    "INSUFFICIENT_BALANCE",
    "NOTHING_TO_CREDIT",
]
"""Why a command was rejected, in the order of the checks (contract, "Out")."""


class CommandResult(Wire):
    """The one result of a command (C1). A rejected command changed nothing else (C2)."""

    command_id: str = Field(description="The command.")
    org_id: str = Field(description="The organisation that sent the command.")
    outcome: Literal["accepted", "rejected"] = Field(description="Whether the command was carried out.")
    code: ResultCode | None = Field(None, description="Why it was rejected; absent when accepted.")
    status: int = Field(description="The equivalent HTTP status: 202, 400, 402, 403, 404, 409 or 422.")
    message: str = Field(description="One sentence: the entity, its state, what was asked, what is allowed.")
    target: str | None = Field(None, description="The id of the entity, where the command names a valid one.")
    at: Rfc3339 = Field(description="Time of the command's record.")
    operator: Literal[True] | None = Field(None, description="Present for results of `operator.commands`.")
