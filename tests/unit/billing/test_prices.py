"""The price at a time is the record with the greatest timestamp not after it; at one ms, the greater offset."""

from itertools import permutations

import pytest

from streams.billing.prices import PriceRecord, Prices
from streams.meters import dedicated_profile, instance_profile

# offset: (timestamp, price)
HISTORY = {
    0: (1_000, "2.50"),
    1: (3_000, "3.00"),
    2: (3_000, "3.10"),
    3: (5_000, None),
    4: (7_000, "0"),
    5: (2_000, "9.00"),  # written late: its timestamp decides, not its place
}
EXPECTED = {
    0: None,
    999: None,
    1_000: "2.50",
    1_999: "2.50",
    2_000: "9.00",
    2_999: "9.00",
    3_000: "3.10",
    4_999: "3.10",
    5_000: None,
    6_999: None,
    7_000: "0",  # free is a price
    10**15: "0",
}


@pytest.mark.parametrize("order", [*permutations(HISTORY)][::37])
def test_the_price_at_a_time_does_not_depend_on_the_order_of_arrival(order: tuple[int, ...]) -> None:
    prices = Prices()
    for offset in [*order, *order]:
        at, price = HISTORY[offset]
        prices.add("disk", PriceRecord(at, offset, price))
    for at, expected in EXPECTED.items():
        record = prices.at("disk", at)
        assert (record.price if record else None) == expected, at


def test_profiles_do_not_share_prices() -> None:
    prices = Prices()
    prices.add("dedicated.h100.1x", PriceRecord(0, 0, "2.50"))
    assert prices.at("dedicated.h100.2x", 10) is None
    assert prices.at("instance.h100.1x", 10) is None


def test_profiles_are_named_by_gpu_type_and_count() -> None:
    assert dedicated_profile("h100", 1) == "dedicated.h100.1x"
    assert instance_profile("a100_80", 16) == "instance.a100_80.16x"
