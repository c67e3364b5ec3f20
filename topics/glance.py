"""A faster reader for the topic with the highest rate: the strings of a heartbeat, without its model.

Its fields are the model's. It reads only what msgspec and the model agree on, and gives the rest back to
`codec.decode_batch`; it does not check the form of ids, which a caller that finds them among its rows need not know.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from schemas.heartbeats import Heartbeat
from topics.codec import is_shallow

MAX_GLANCE_BYTES: Final = 4_096
"""A longer value might hold an integer with more digits than the model's parser reads."""

HeartbeatIds: Final[Any] = msgspec.defstruct(
    "HeartbeatIds", [(name, str) for name in Heartbeat.model_fields], frozen=True, gc=False
)
"""The ids of a heartbeat, in the fields of its model; their form is not checked."""

_read: Final = msgspec.json.Decoder(HeartbeatIds).decode


def glance(values: Sequence[bytes | None]) -> list[Any] | None:
    """Return the `HeartbeatIds` of each of `values`; None where any needs the model, for good or bad."""
    if None in values:
        return None
    present: Sequence[bytes] = values  # type: ignore[assignment]
    joined = b"".join(present)
    # msgspec does not decode the strings of fields that it skips, and limits no nesting.
    if not joined.isascii() or not is_shallow(joined, len(present)):
        return None
    if max(map(len, present), default=0) > MAX_GLANCE_BYTES:
        return None
    try:
        return [_read(value) for value in present]
    except (msgspec.MsgspecError, RecursionError):
        return None
