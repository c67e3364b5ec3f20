"""`obol.clock`: the ticks, one record per partition and minute."""

from typing import Literal

from pydantic import Field

from schemas.base import Wire


class Tick(Wire):
    """A minute has started; the record's timestamp is "now" (rules, "Within a tick")."""

    type: Literal["tick"] = Field(description="Always `tick`.")
