from collections.abc import Sequence

class BatchBuilder:
    def append(
        self,
        *,
        timestamp: int | None,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[tuple[str, bytes | None]] = ...,
    ) -> object | None: ...
    def close(self) -> None: ...
    def record_count(self) -> int: ...
