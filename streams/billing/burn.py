"""Burn and runway: what an org spends per hour, and how long its balance lasts (rule I6)."""

from collections.abc import Mapping

from streams.billing.money import to_atto
from streams.billing.prices import Prices
from streams.limits import HOUR_S


def burn_per_hour(units: Mapping[str, int], prices: Prices, now_ms: int) -> int:
    """Return atto per hour for `units`, the number of each profile; a profile without a price counts 0 (I6 D)."""
    total = 0
    for profile, count in units.items():
        record = prices.at(profile, now_ms)
        if record is not None and record.price is not None:
            total += count * to_atto(record.price)
    return total


def runway_s(balance: int, burn: int) -> int | None:
    """Return how many whole seconds `balance` lasts at `burn` (both atto): 0 at or below zero, None without burn."""
    if balance <= 0:
        return 0
    return balance * HOUR_S // burn if burn else None
