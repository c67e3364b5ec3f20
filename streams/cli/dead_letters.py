"""Dead letters as read from `dead.letters`."""

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from schemas.dead_letters import DeadLetter

REPLAYED: Final = "obol-replayed"
"""Header of a replayed record: `<partition>@<offset>` of its dead letter."""


@dataclass(frozen=True, slots=True)
class DeadLetterRecord:
    """A dead letter with its partition and offset in `dead.letters`."""

    partition: int
    offset: int
    content: DeadLetter

    @property
    def replay_header(self) -> bytes:
        """The value of the header `obol-replayed` of its replay."""
        return f"{self.partition}@{self.offset}".encode()

    @property
    def origin(self) -> str:
        """The original record: `<topic>[<partition>]@<offset>`."""
        return f"{self.content.topic}[{self.content.partition}]@{self.content.offset}"

    @property
    def key(self) -> bytes | None:
        """The original key."""
        return _bytes(self.content.key_base64)

    @property
    def value(self) -> bytes | None:
        """The original value."""
        return _bytes(self.content.value_base64)

    @property
    def org_id(self) -> str | None:
        """The org in the original value; None when the value can't be parsed."""
        return _org(self.value)


def parse_dead_letter(record: Any) -> DeadLetterRecord | None:
    """Parse a record of `dead.letters`; None when it is not a dead letter."""
    try:
        letter = DeadLetterRecord(record.partition, record.offset, DeadLetter.model_validate_json(record.value or b""))
        _ = letter.key, letter.value
    except ValueError:
        return None
    return letter


def org_of(values: Mapping[str, Any]) -> str | None:
    """Return the org in the original value of a dead letter; None when it can't be parsed. `values`: its fields."""
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
