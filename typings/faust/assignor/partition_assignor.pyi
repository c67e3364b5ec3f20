from collections.abc import Mapping, Sequence

class PartitionAssignor:
    def tables_metadata(self) -> Mapping[str, Mapping[str, Sequence[int]]]: ...
