"""`obol.clock`: what time it is, one record per partition."""

from typing import Literal

from pydantic import Field

from schemas.base import Wire


class Tick(Wire):
    """A minute has begun; the record's timestamp is "now" (rules, "Within a tick")."""

    type: Literal["tick"] = Field(description="Always `tick`.")
