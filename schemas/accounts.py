"""`croesus.accounts`: balances and suspensions that Croesus reports."""

from typing import Annotated, Literal

from pydantic import Field

from schemas.base import NullIs, Wire
from schemas.ids import EventId, Int64, Money, OrgId


class BalanceUpdated(Wire):
    """The current balance of an org (I6, I7, I8)."""

    type: Literal["balance_updated"] = "balance_updated"
    event_id: EventId
    org_id: OrgId
    balance: Money = Field(description="The total balance in the installation's currency; may be negative.")
    sequence: Int64 | None = Field(
        None, description="Increases with each update; an update whose sequence is not above the last is ignored (C3)."
    )
    epoch: Annotated[Int64, Field(ge=0), NullIs(0)] = Field(
        0, description="Counts before the sequence; a Croesus restored from a backup raises it (C3)."
    )


class OrgSuspended(Wire):
    """From now on the org may not create, deploy or start anything (B22)."""

    type: Literal["org_suspended"] = "org_suspended"
    event_id: EventId
    org_id: OrgId


class OrgReinstated(Wire):
    """The suspension is over (B22)."""

    type: Literal["org_reinstated"] = "org_reinstated"
    event_id: EventId
    org_id: OrgId


Account = Annotated[BalanceUpdated | OrgSuspended | OrgReinstated, Field(discriminator="type")]
"""Any record of `croesus.accounts`, distinguished by `type`."""
