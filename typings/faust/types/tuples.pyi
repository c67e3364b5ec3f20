from collections.abc import Sequence
from typing import Any, NamedTuple

class TP(NamedTuple):
    topic: str
    partition: int

class Message:
    topic: str
    partition: int
    offset: int
    timestamp: float
    key: bytes | None
    value: Any
    tp: TP
    generation_id: int

    def __init__(
        self,
        topic: str,
        partition: int,
        offset: int,
        timestamp: float,
        timestamp_type: int,
        headers: Sequence[tuple[str, bytes]] | None,
        key: bytes | None,
        value: Any,
        checksum: bytes | None,
        serialized_key_size: int | None = ...,
        serialized_value_size: int | None = ...,
        tp: TP | None = ...,
        *,
        generation_id: int | None = ...,
    ) -> None: ...

class ConsumerMessage(Message): ...
