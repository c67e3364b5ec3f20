"""`croesus.credits`: what is taken back of usage events (B13)."""

from typing import Literal

from pydantic import Field

from schemas.base import Wire
from schemas.ids import Rfc3339
from schemas.usage import UsageType

CreditReason = Literal["closed_late", "operator"]
"""Why a credit is owed: a window's close came late (B10), or an operator asked (B13)."""


class Credit(Wire):
    """Takes back all or part of one usage event, at its price. The same (org, id) always has the same bytes."""

    id: str = Field(description="`<usage id>:credit:<interval_start>`.")
    usage_id: str = Field(description="The usage event that it takes back from.")
    reason: CreditReason = Field(description="Why.")
    note: str | None = Field(None, description="The operator's note.")
    type: UsageType = Field(description="As in the usage event.")
    org_id: str = Field(description="The organisation credited.")
    deployment_id: str | None = Field(None, description="Dedicated inference: the deployment.")
    replica_id: str | None = Field(None, description="Dedicated inference: the replica.")
    instance_id: str | None = Field(None, description="Instances: the instance.")
    window_id: str = Field(description="The window.")
    profile: str = Field(description="As in the usage event.")
    quantity: int = Field(ge=1, description="As in the usage event.")
    labels: dict[str, str] | None = Field(None, description="As in the usage event.")
    interval_start: Rfc3339 = Field(description="Start of what is credited, inclusive.")
    interval_end: Rfc3339 = Field(description="End of what is credited, exclusive.")
    duration_ms: int = Field(ge=1, le=60_000, description="Duration of what is credited in ms, 1 to 60,000.")
