from asyncio import Future

from aiokafka.structs import TopicPartition

class TransactionManager:
    def wait_for_transaction_end(self) -> Future[None] | None: ...
    def maybe_add_partition_to_txn(self, tp: TopicPartition) -> None: ...
