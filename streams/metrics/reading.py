"""What metrics need to know of a partition: one reading of it, taken when Prometheus asks."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from streams.billing.prices import Prices
from streams.rules.book import Book
from streams.rules.context import Switches


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """A restored partition's rows, and what is needed to say why a window is held (B9)."""

    book: Book
    prices: Prices
    switches: Switches


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionReading:
    """One assigned partition as it stands.

    `counts` are the totals that are committed with the partition's position, under the keys of `Decision.counts` and of
    the engine: exact whatever crashed in between. `lag_records` has unread records by topic (without namespace).
    `as_of_ms`: the greatest time read in order, None before the first record. `restored`: 0 to 1, how much of its rows
    is back. `ledger`: None while it is restoring.
    """

    partition: int
    counts: Mapping[tuple[str, str], int] = field(default_factory=dict)
    lag_records: Mapping[str, int] = field(default_factory=dict)
    as_of_ms: int | None = None
    restored: float = 1.0
    ledger: Ledger | None = None
