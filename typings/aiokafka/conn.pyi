from asyncio import Future
from ssl import SSLContext
from typing import Any

from aiokafka.protocol.api import Request

class AIOKafkaConnection:
    def __init__(
        self,
        host: str,
        port: int,
        *,
        request_timeout_ms: int = ...,
        ssl_context: SSLContext | None = ...,
        security_protocol: str = ...,
        sasl_mechanism: str | None = ...,
        sasl_plain_password: str | None = ...,
        sasl_plain_username: str | None = ...,
    ) -> None: ...
    async def connect(self) -> object: ...
    def send(self, request: Request[Any]) -> Future[object]: ...
    def close(self) -> Future[None]: ...
