from aiokafka.structs import TopicPartition

class ClusterMetadata:
    def leader_for_partition(self, partition: TopicPartition) -> int | None: ...
