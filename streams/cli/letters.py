"""Dead letters, read back: what they were, and whether they can be sent again."""

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from schemas.dead_letters import DeadLetter

REPLAYED: Final = "obol-replayed"
"""Header of a record that was sent again: `<partition>@<offset>` of its dead letter."""


@dataclass(frozen=True, slots=True)
class Letter:
    """A dead letter and where it stands in `dead.letters`."""

    partition: int
    offset: int
    content: DeadLetter

    @property
    def mark(self) -> bytes:
        """What the header of its replay says."""
        return f"{self.partition}@{self.offset}".encode()

    @property
    def origin(self) -> str:
        """The record it was."""
        return f"{self.content.topic}[{self.content.partition}]@{self.content.offset}"

    @property
    def key(self) -> bytes | None:
        """Its original key."""
        return _bytes(self.content.key_base64)

    @property
    def value(self) -> bytes | None:
        """Its original value."""
        return _bytes(self.content.value_base64)

    @property
    def org_id(self) -> str | None:
        """The org that it names, if it can be read."""
        return _org(self.value)


def read_letter(record: Any) -> Letter | None:
    """A record of `dead.letters`; None when it is none of ours."""
    try:
        letter = Letter(record.partition, record.offset, DeadLetter.model_validate_json(record.value or b""))
        _ = letter.key, letter.value
    except ValueError:
        return None
    return letter


def org_of(values: Mapping[str, Any]) -> str | None:
    """The org that the value of a dead letter names, if it can be read."""
    encoded = values.get("value_base64")
    if not isinstance(encoded, str):
        return None
    try:
        return _org(_bytes(encoded))
    except binascii.Error:
        return None


def _bytes(encoded: str | None) -> bytes | None:
    return None if encoded is None else base64.b64decode(encoded, validate=True)


def _org(value: bytes | None) -> str | None:
    try:
        content = json.loads(value or b"")
    except (ValueError, RecursionError):
        return None
    org_id = content.get("org_id") if isinstance(content, dict) else None
    return org_id if isinstance(org_id, str) else None
