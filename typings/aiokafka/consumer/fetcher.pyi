from asyncio import Future
from typing import Any, Final, NoReturn

from aiokafka.client import AIOKafkaClient
from aiokafka.consumer.subscription_state import Assignment, SubscriptionState
from aiokafka.errors import KafkaError
from aiokafka.protocol.fetch import FetchRequest
from aiokafka.structs import ConsumerRecord, TopicPartition

class OffsetResetStrategy:
    NONE: Final = 0

class FetchError:
    def check_raise(self) -> NoReturn: ...

class Fetcher:
    _client: AIOKafkaClient
    _closed: bool
    _default_reset_strategy: int
    _isolation_level: int
    _prefetch_backoff: float
    _records: dict[TopicPartition, Any]
    _retry_backoff: float
    _subscriptions: SubscriptionState
    _wait_consume_future: Future[None] | None

    def __init__(self, client: AIOKafkaClient, subscriptions: SubscriptionState) -> None: ...
    def _create_fetch_waiter(self) -> Future[None]: ...
    def _notify(self, future: Future[None] | None) -> None: ...
    async def _proc_fetch_request(self, assignment: Assignment, node_id: int, request: FetchRequest) -> bool: ...
    def _set_error(self, tp: TopicPartition, error: KafkaError) -> None: ...
    async def fetched_records(
        self, partitions: Any, timeout: float = ..., max_records: int | None = ...
    ) -> dict[TopicPartition, list[ConsumerRecord]]: ...
