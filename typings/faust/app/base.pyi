from asyncio import Queue
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from pathlib import Path
from typing import Any

from faust.agents.agent import Agent
from faust.assignor.partition_assignor import PartitionAssignor
from faust.auth import Credentials
from faust.serializers.schemas import Schema
from faust.streams import Stream
from faust.tables.manager import TableManager
from faust.tables.table import Table
from faust.topics import Topic
from faust.transport.drivers.aiokafka import Consumer, Transport
from faust.types.settings.settings import Settings
from faust.web.drivers.aiohttp import Web
from mode.signals import Signal
from mode.utils.queues import FlowControlEvent
from yarl import URL

class App:
    agents: MutableMapping[str, Agent]
    conf: Settings
    consumer: Consumer
    consumer_generation_id: int
    flow_control: FlowControlEvent
    on_rebalance_complete: Signal
    tables: TableManager
    transport: Transport
    web: Web

    def __init__(
        self,
        id: str,
        *,
        autodiscover: Sequence[str] = ...,
        broker: Sequence[URL | str] = ...,
        broker_credentials: Credentials | None = ...,
        broker_heartbeat_interval: float = ...,
        broker_max_poll_records: int = ...,
        broker_session_timeout: float = ...,
        canonical_url: str = ...,
        consumer_auto_offset_reset: str = ...,
        datadir: Path | str = ...,
        env_prefix: str = ...,
        stream_buffer_maxsize: int = ...,
        stream_wait_empty: bool = ...,
        table_standby_replicas: int = ...,
        topic_allow_declare: bool = ...,
        topic_disable_leader: bool = ...,
        topic_partitions: int = ...,
        topic_replication_factor: int = ...,
        web_bind: str = ...,
        web_host: str = ...,
        web_port: int = ...,
        web_tables_enabled: bool = ...,
        web_application_options: Mapping[str, Any] = ...,
    ) -> None: ...
    @property
    def assignor(self) -> PartitionAssignor: ...
    @property
    def should_stop(self) -> bool: ...
    @property
    def started(self) -> bool: ...
    def FlowControlQueue(self, maxsize: int | None = ..., *, clear_on_resume: bool = ...) -> Queue[Any]: ...
    def Table(self, name: str) -> Table: ...
    def add_future(self, coro: Awaitable[Any]) -> Any: ...
    def agent(
        self, channel: Topic | None = ..., *, name: str | None = ..., concurrency: int = ...
    ) -> Callable[[Callable[[Stream[Any]], Awaitable[None]]], Agent]: ...
    def topic(
        self,
        *topics: str,
        schema: Schema | None = ...,
        value_serializer: str | None = ...,
        acks: bool = ...,
    ) -> Topic: ...
    async def on_first_start(self) -> None: ...
    async def on_stop(self) -> None: ...
    async def stop(self) -> None: ...
    async def _on_agent_error(self, agent: Agent, exc: BaseException) -> None: ...
