from asyncio import Queue
from collections.abc import Sequence
from typing import Any

from faust.app.base import App
from faust.serializers.schemas import Schema

class Topic:
    app: App

    def __init__(
        self, app: App, *, topics: Sequence[str] | None = ..., schema: Schema | None = ..., acks: bool = ...
    ) -> None: ...
    def clone(self, *, is_iterator: bool | None = ..., **kwargs: Any) -> Any: ...
    def get_topic_name(self) -> str: ...
    @property
    def queue(self) -> Queue[Any]: ...
