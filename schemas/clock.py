"""`obol.clock`: the ticks, one record per partition and minute."""

from typing import Literal

from pydantic import Field

from schemas.base import Wire
from schemas.ids import Int64


class Tick(Wire):
    """A minute has started; the record's timestamp is "now" (rules, "Within a tick")."""

    type: Literal["tick"] = Field(description="Always `tick`.")
    at: Int64 | None = Field(
        None, description="The writer's own clock, in ms; a tick more than 5 minutes from it is void."
    )
