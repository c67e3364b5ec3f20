"""Burn and runway (I6, contract)."""

import pytest

from streams.billing.burn import burn_per_hour, runway_s
from streams.billing.money import to_atto
from streams.billing.prices import PriceRecord, Prices


def prices() -> Prices:
    known = Prices()
    known.add("dedicated.h100.1x", PriceRecord(0, 0, "2.5"))
    known.add("disk", PriceRecord(0, 1, "0.000000000000000001"))
    known.add("instance.a100.1x", PriceRecord(0, 2, "1.1"))
    known.add("instance.a100.1x", PriceRecord(5_000, 3, None))
    return known


@pytest.mark.parametrize(
    ("units", "now", "burn"),
    [
        ({}, 0, "0"),
        ({"dedicated.h100.1x": 3}, 0, "7.5"),
        ({"dedicated.h100.1x": 1, "disk": 100}, 0, "2.500000000000000100"),
        ({"instance.a100.1x": 2}, 4_999, "2.2"),
        ({"instance.a100.1x": 2}, 5_000, "0"),
        ({"unheard.of": 9, "dedicated.h100.1x": 1}, 0, "2.5"),
    ],
)
def test_a_profile_without_a_price_counts_zero(units: dict[str, int], now: int, burn: str) -> None:
    assert burn_per_hour(units, prices(), now) == to_atto(burn)


@pytest.mark.parametrize(
    ("balance", "burn", "seconds"),
    [
        ("10", "2.5", 14_400),
        ("1", "3", 1_200),
        ("1", "7", 514),  # 514.28…
        ("0.000000000000000001", "1", 0),
        ("0.000000000000000001", "0.000000000000000001", 3_600),
        ("5", "0", None),
        ("0", "0", 0),
        ("0", "2", 0),
        ("-1", "0", 0),
        ("-1", "2", 0),
    ],
)
def test_a_runway_is_in_whole_seconds(balance: str, burn: str, seconds: int | None) -> None:
    assert runway_s(to_atto(balance), to_atto(burn)) == seconds
