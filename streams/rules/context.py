"""What a rule gets besides the event: the rows, the prices, the switches and the origin of the record."""

from dataclasses import dataclass

from streams.billing.prices import Prices
from streams.billing.windows import Origin
from streams.rules.decision import Decision
from streams.rules.store import OrgRows, RowStore


@dataclass(frozen=True, slots=True)
class Switches:
    """The dedicated-billing switches (B20, B21); dry-run counts only while billing is enabled."""

    billing_enabled: bool = False
    dry_run: bool = False

    @property
    def dry(self) -> bool:
        """Whether a dry run is in effect (B21)."""
        return self.billing_enabled and self.dry_run

    @property
    def live(self) -> bool:
        """Whether dedicated windows are billed for real (B20, B22)."""
        return self.billing_enabled and not self.dry_run


@dataclass(frozen=True, slots=True)
class Turn:
    """The processing of one record by the rules, on one org's rows."""

    store: RowStore
    rows: OrgRows
    prices: Prices
    switches: Switches
    origin: Origin
    decision: Decision

    @property
    def now(self) -> int:
        """The event's time in ms: the only clock that rules have."""
        return self.origin.timestamp

    @property
    def org_id(self) -> str:
        """The org of the record."""
        return self.rows.org.org_id
