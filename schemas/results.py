"""`command.results`: the answer to each command."""

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
]
"""Why a command was refused, in the order in which it is checked (contract, "Out")."""


class CommandResult(Wire):
    """The one result of a command (C1); a refused one changed nothing else (C2)."""

    command_id: str = Field(description="The command answered.")
    org_id: str = Field(description="The organisation that asked.")
    outcome: Literal["accepted", "rejected"] = Field(description="Whether it was done.")
    code: ResultCode | None = Field(None, description="Why it was refused; absent when accepted.")
    status: int = Field(description="The HTTP status to answer with: 202, 400, 402, 403, 404, 409 or 422.")
    message: str = Field(description="One sentence: the entity, its state, what was asked, what is allowed.")
    target: str | None = Field(None, description="The id that the command was about, where it names a good one.")
    at: Rfc3339 = Field(description="Time of the command's record.")
