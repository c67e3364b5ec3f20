from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from click import Context

def argument(*args: Any, **kwargs: Any) -> Callable[[Any], Any]: ...

class AppCommand:
    UsageError: type[Exception]
    options: ClassVar[Sequence[Callable[[Any], Any]] | None]

    def __init__(self, ctx: Context, *args: Any, **kwargs: Any) -> None: ...
    async def run(self, *args: Any, **kwargs: Any) -> Any: ...
    def say(self, message: str) -> None: ...
    def tabulate(
        self,
        data: Sequence[Sequence[str]],
        headers: Sequence[str] | None = ...,
        wrap_last_row: bool = ...,
        title: str = ...,
    ) -> str: ...
