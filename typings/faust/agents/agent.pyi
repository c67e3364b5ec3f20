from collections.abc import Awaitable, Callable
from typing import Any

from faust.topics import Topic

class Agent:
    fun: Callable[[Any], Awaitable[None]]
    help: str
    name: str

    @property
    def channel(self) -> Topic: ...
