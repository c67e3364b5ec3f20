from collections.abc import Callable, Iterator

class DefaultRecord:
    offset: int
    timestamp: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]

class DefaultRecordBatch:
    base_offset: int
    next_offset: int
    compression_type: int
    timestamp_type: int
    first_timestamp: int
    max_timestamp: int
    producer_id: int
    is_control_batch: bool
    is_transactional: bool
    validate_crc: Callable[[], bool]
    def __init__(self, buffer: bytes) -> None: ...
    def __iter__(self) -> Iterator[DefaultRecord]: ...
