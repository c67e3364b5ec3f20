from collections.abc import Callable
from typing import Any

from faust.app.base import App
from faust.types import ConsumerMessage

class Schema:
    def loads_key(
        self,
        app: App,
        message: ConsumerMessage,
        *,
        loads: Callable[..., Any] | None = ...,
        serializer: str | None = ...,
    ) -> Any: ...
    def loads_value(
        self,
        app: App,
        message: ConsumerMessage,
        *,
        loads: Callable[..., Any] | None = ...,
        serializer: str | None = ...,
    ) -> Any: ...
