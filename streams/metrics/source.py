"""The interface of a worker that metrics and web views read."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from streams.billing.prices import Prices
from streams.rules.context import Switches
from streams.rules.store import RowStore


class ShardView(Protocol):
    """One assigned partition. Times are ms since 1970; topic names are without the namespace."""

    @property
    def partition(self) -> int:
        """The partition's number."""

    @property
    def store(self) -> RowStore:
        """The rows; complete once `ready`."""

    @property
    def ready(self) -> bool:
        """Whether all rows are restored."""

    @property
    def as_of(self) -> int | None:
        """The greatest timestamp applied; None before the first record."""

    @property
    def counters(self) -> Mapping[tuple[str, str], int]:
        """Totals by kind and detail. They are committed with the position, so they stay exact after a crash."""

    @property
    def lag_records(self) -> int | None:
        """Records of its inputs that are not applied yet; None while unknown."""

    @property
    def lag_ms(self) -> int | None:
        """How far `as_of` is behind the newest record that is not applied yet; None while unknown."""

    @property
    def restored_rows(self) -> int:
        """Changelog records restored so far."""

    @property
    def restore_total(self) -> int | None:
        """Changelog records to restore in total; None while unknown."""

    @property
    def blocked(self) -> str | None:
        """Why it applies or commits nothing more, although there is more; else None."""


class Source(Protocol):
    """One worker."""

    @property
    def switches(self) -> Switches:
        """The dedicated-billing switches (B20, B21)."""

    @property
    def prices(self) -> Prices:
        """All prices with their history."""

    @property
    def prices_refused(self) -> int:
        """Invalid records of `croesus.prices` that were ignored since this worker started."""

    @property
    def disagreements(self) -> Sequence[str]:
        """Settings that are not the same on other workers, one line each."""

    @property
    def open_transactions(self) -> Sequence[str]:
        """Open transactions of other programs that block inputs, one line each."""

    def shards(self) -> Sequence[ShardView]:
        """Return the assigned partitions, including those that are restoring."""
