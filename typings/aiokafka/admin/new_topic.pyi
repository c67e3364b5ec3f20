class NewTopic:
    def __init__(
        self,
        name: str,
        num_partitions: int,
        replication_factor: int,
        replica_assignments: dict[int, list[int]] | None = ...,
        topic_configs: dict[str, str] | None = ...,
    ) -> None: ...
