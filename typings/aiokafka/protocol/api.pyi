from typing import Any, ClassVar, Generic, TypeVar

from aiokafka.protocol.types import Schema

_T = TypeVar("_T", bound=RequestStruct)

class Request(Generic[_T]):
    def build(self, request_struct_class: type[_T]) -> _T: ...

class RequestStruct:
    FLEXIBLE_VERSION: ClassVar[bool]
    API_KEY: ClassVar[int]
    API_VERSION: ClassVar[int]
    RESPONSE_TYPE: ClassVar[type[Response]]
    SCHEMA: ClassVar[Schema]
    def __init__(self, *args: Any) -> None: ...

class Response:
    @property
    def API_KEY(self) -> int: ...
    @property
    def API_VERSION(self) -> int: ...
