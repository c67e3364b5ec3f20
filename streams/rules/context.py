"""What a rule reads besides the event itself: the rows, the prices, the switches, and the record that is applied."""

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
        """Dry-run is in force (B21)."""
        return self.billing_enabled and self.dry_run

    @property
    def live(self) -> bool:
        """Dedicated windows are really billed (B20, B22)."""
        return self.billing_enabled and not self.dry_run


@dataclass(frozen=True, slots=True)
class Turn:
    """One record being applied to one org's rows."""

    store: RowStore
    rows: OrgRows
    prices: Prices
    switches: Switches
    origin: Origin
    decision: Decision

    @property
    def now(self) -> int:
        """The event's time in ms: the only clock that rules know."""
        return self.origin.timestamp

    @property
    def org_id(self) -> str:
        """The org whose rows these are."""
        return self.rows.org.org_id
