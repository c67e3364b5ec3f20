from typing import Generic, TypeVar

_T = TypeVar("_T")

class AbstractType(Generic[_T]): ...
