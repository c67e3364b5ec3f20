class ProduceRequest:
    def __init__(
        self,
        transactional_id: str | None,
        required_acks: int,
        timeout: int,
        topics: list[tuple[str, list[tuple[int, bytes]]]],
    ) -> None: ...
