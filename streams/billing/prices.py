"""What a profile costs at a time (contract, `croesus.prices`; rules B9, I6)."""

from bisect import bisect_left, bisect_right
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PriceRecord:
    """One record of `croesus.prices`: from `at_ms` on, the profile costs `price`; None: it has no price any more."""

    at_ms: int
    offset: int
    price: str | None


class Prices:
    """Every price ever heard, by profile: the price at a time is the record with the greatest timestamp not after it.

    At one millisecond, the greater offset wins. Records may be added in any order, and twice.
    """

    def __init__(self) -> None:
        self.history: dict[str, list[PriceRecord]] = {}

    def add(self, profile: str, record: PriceRecord) -> None:
        """Learn a price, or with None that there is none from then on."""
        records = self.history.setdefault(profile, [])
        place = bisect_left(records, _when(record), key=_when)
        if place == len(records) or _when(records[place]) != _when(record):
            records.insert(place, record)

    def at(self, profile: str, now_ms: int) -> PriceRecord | None:
        """The record whose price holds at `now_ms`; None when the profile has no price then."""
        records = self.history.get(profile)
        if not records:
            return None
        known = bisect_right(records, now_ms, key=lambda record: record.at_ms)
        if known == 0 or records[known - 1].price is None:
            return None
        return records[known - 1]


def _when(record: PriceRecord) -> tuple[int, int]:
    return record.at_ms, record.offset
