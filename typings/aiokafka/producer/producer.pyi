from asyncio import Future
from collections.abc import Mapping, Sequence
from ssl import SSLContext
from types import TracebackType
from typing import Literal, Self

from aiokafka.producer.message_accumulator import BatchBuilder
from aiokafka.producer.transaction_manager import TransactionManager
from aiokafka.structs import OffsetAndMetadata, RecordMetadata, TopicPartition

class AIOKafkaProducer:
    _txn_manager: TransactionManager | None

    def __init__(
        self,
        *,
        bootstrap_servers: str | list[str] = ...,
        client_id: str | None = ...,
        acks: Literal[0, 1, -1, "all"] = ...,
        compression_type: Literal["gzip", "snappy", "lz4", "zstd"] | None = ...,
        max_batch_size: int = ...,
        max_request_size: int = ...,
        linger_ms: int = ...,
        security_protocol: str = ...,
        ssl_context: SSLContext | None = ...,
        enable_idempotence: bool = ...,
        transactional_id: str | None = ...,
        transaction_timeout_ms: int = ...,
        sasl_mechanism: str = ...,
        sasl_plain_password: str | None = ...,
        sasl_plain_username: str | None = ...,
    ) -> None: ...
    async def start(self) -> None: ...
    async def flush(self) -> None: ...
    async def stop(self) -> None: ...
    async def send(
        self,
        topic: str,
        value: bytes | None = ...,
        key: bytes | None = ...,
        partition: int | None = ...,
        timestamp_ms: int | None = ...,
        headers: Sequence[tuple[str, bytes]] | None = ...,
    ) -> Future[RecordMetadata]: ...
    async def send_and_wait(
        self,
        topic: str,
        value: bytes | None = ...,
        key: bytes | None = ...,
        partition: int | None = ...,
        timestamp_ms: int | None = ...,
        headers: Sequence[tuple[str, bytes]] | None = ...,
    ) -> RecordMetadata: ...
    def create_batch(self) -> BatchBuilder: ...
    async def send_batch(self, batch: BatchBuilder, topic: str, *, partition: int) -> Future[RecordMetadata]: ...
    async def begin_transaction(self) -> None: ...
    async def commit_transaction(self) -> None: ...
    async def abort_transaction(self) -> None: ...
    def transaction(self) -> TransactionContext: ...
    async def send_offsets_to_transaction(
        self, offsets: Mapping[TopicPartition, int | tuple[int, str] | OffsetAndMetadata], group_id: str
    ) -> None: ...

class TransactionContext:
    async def __aenter__(self) -> Self: ...
    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_value: BaseException | None, traceback: TracebackType | None
    ) -> None: ...
