"""`dead.letters`: every record that could not be applied, with the reason."""

from typing import Literal

from pydantic import Field

from schemas.base import MAX_VALUE_BYTES, Wire

DeadLetterReason = Literal[
    "too_large", "undecodable", "invalid", "unknown_replica", "unknown_instance", "unknown_deployment"
]
"""Why a record could not be applied, in the order in which it is checked (contract, "Out")."""

MAX_DEAD_LETTER_BYTES = MAX_VALUE_BYTES
"""Key and value are each cut at this many bytes, before base64."""


class DeadLetter(Wire):
    """A record that could not be applied. Bad input neither stops a worker nor gets lost."""

    reason: DeadLetterReason = Field(description="The reason.")
    error: str = Field(description="The error; it names the field or the id.")
    topic: str = Field(description="The topic that it was read from, without the namespace.")
    partition: int = Field(ge=0, description="Its partition in that topic, and the partition of the dead letter.")
    offset: int = Field(ge=0, description="Its offset in that partition.")
    timestamp: int = Field(description="Its timestamp in ms.")
    key_base64: str | None = Field(None, description="Its key, cut at 64 KiB; absent when it had none.")
    value_base64: str | None = Field(None, description="Its value, cut at 64 KiB; absent when it had none.")
    truncated: bool = Field(description="Whether key or value was cut.")
