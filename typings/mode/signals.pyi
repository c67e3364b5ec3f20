from collections.abc import Awaitable, Callable
from typing import Any

class Signal:
    def connect(self, fun: Callable[..., Awaitable[None]]) -> Any: ...
