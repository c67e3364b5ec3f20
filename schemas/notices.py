"""`org.notices`: notices to an org before its balance ends something (N1)."""

from typing import Literal

from pydantic import Field

from schemas.base import Wire
from schemas.ids import Rfc3339

NoticeKind = Literal["runway_low", "balance_empty", "auto_destroy_ahead"]
"""What a notice is about (N1)."""


class Notice(Wire):
    """A notice about an org's balance. Amounts and runway are as the org's view shows them at the tick."""

    notice_id: str = Field(description="`<org_id>:notice:<n>`, n = 1, 2, … for each org.")
    org_id: str = Field(description="The organisation.")
    kind: NoticeKind = Field(description="What it is about.")
    threshold_s: int | None = Field(None, description="`runway_low` only: the runway is below this, in seconds.")
    balance: str = Field(description="The balance as last reported.")
    burn_per_hour: str = Field(description="What the org spends per hour (I6).")
    runway_s: int | None = Field(None, description="How long the balance lasts, in seconds; absent without burn.")
    at: Rfc3339 = Field(description="Time of the tick.")
