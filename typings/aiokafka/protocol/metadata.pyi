from typing import Any

from aiokafka.protocol.api import Request

class MetadataRequest(Request[Any]):
    def __init__(self, topics: list[str] | None = ..., allow_auto_topic_creation: bool | None = ...) -> None: ...
