from collections.abc import AsyncIterable
from typing import Generic, TypeVar

from faust.types import EventT

_T = TypeVar("_T")

class Stream(Generic[_T]):
    def noack(self) -> Stream[_T]: ...
    def events(self) -> AsyncIterable[EventT]: ...
