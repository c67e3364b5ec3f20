"""What metrics are read off: this worker's partitions, as the engine has them. The web views read the same."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from streams.billing.prices import Prices
from streams.rules.context import Switches
from streams.rules.store import RowStore


class Shard(Protocol):
    """One assigned partition. Times are UTC milliseconds; topics are without namespace."""

    @property
    def partition(self) -> int:
        """Its number."""

    @property
    def store(self) -> RowStore:
        """Its rows; whole only once `ready`."""

    @property
    def ready(self) -> bool:
        """Its rows are restored."""

    @property
    def as_of(self) -> int | None:
        """The greatest time read in order; None before anything was read."""

    @property
    def counters(self) -> Mapping[tuple[str, str], int]:
        """Totals by kind and detail, committed with its position: exact whatever crashed in between."""

    @property
    def lag_records(self) -> int | None:
        """Records that wait in its inbound topics; None while unknown."""

    @property
    def lag_ms(self) -> int | None:
        """How far its time is behind the newest record that waits; None while unknown."""

    @property
    def restored_rows(self) -> int:
        """Changelog records read back so far."""

    @property
    def restore_total(self) -> int | None:
        """Changelog records to read back; None while unknown."""


class Source(Protocol):
    """One worker."""

    @property
    def switches(self) -> Switches:
        """The dedicated-billing switches (B20, B21)."""

    @property
    def prices(self) -> Prices:
        """Every price ever heard."""

    @property
    def prices_refused(self) -> int:
        """Bad records of `croesus.prices` that were ignored since this worker began."""

    def shards(self) -> Sequence[Shard]:
        """List the assigned partitions, those that are still restoring too."""
