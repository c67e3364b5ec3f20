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
    """A record that could not be applied: bad input never stops a worker and never disappears."""

    reason: DeadLetterReason = Field(description="Why, in one word.")
    error: str = Field(description="Why, in a short sentence that names the field or the id.")
    topic: str = Field(description="Where it was read, without the namespace.")
    partition: int = Field(ge=0, description="Its partition there, and of this record.")
    offset: int = Field(ge=0, description="Its offset there.")
    timestamp: int = Field(description="Its timestamp in ms.")
    key_base64: str | None = Field(None, description="Its key, at most 64 KiB of it; absent when it had none.")
    value_base64: str | None = Field(None, description="Its value, at most 64 KiB of it; absent when it had none.")
    truncated: bool = Field(description="Whether key or value was cut.")
