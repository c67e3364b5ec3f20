"""The price of a profile at a given time (contract, `croesus.prices`; rules B9, I6)."""

from bisect import bisect_left, bisect_right
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PriceRecord:
    """One record of `croesus.prices`: the price from `at_ms` on; None: the profile has no price from then on."""

    at_ms: int
    offset: int
    price: str | None


class Prices:
    """All price records, by profile: the price at a time is the record with the greatest timestamp not after it.

    At one millisecond, the greater offset wins. Records may be added in any order, and twice.
    """

    def __init__(self) -> None:
        self.history: dict[str, list[PriceRecord]] = {}

    def add(self, profile: str, record: PriceRecord) -> None:
        """Add a price record of a profile; one that is known changes nothing."""
        records = self.history.setdefault(profile, [])
        index = bisect_left(records, _sort_key(record), key=_sort_key)
        if index == len(records) or _sort_key(records[index]) != _sort_key(record):
            records.insert(index, record)

    def at(self, profile: str, now_ms: int) -> PriceRecord | None:
        """Return the record with the price at `now_ms`; None when the profile has no price then."""
        records = self.history.get(profile)
        if not records:
            return None
        count = bisect_right(records, now_ms, key=lambda record: record.at_ms)
        if count == 0 or records[count - 1].price is None:
            return None
        return records[count - 1]


def _sort_key(record: PriceRecord) -> tuple[int, int]:
    return record.at_ms, record.offset
