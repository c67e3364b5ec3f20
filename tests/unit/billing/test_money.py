"""Money is exact (contract: decimal strings, at most 18 digits on each side of the point)."""

import pytest

from streams.billing.money import cost_text, to_atto, to_text

UNIT = 1_000_000_000_000_000_000


@pytest.mark.parametrize(
    ("text", "atto"),
    [
        ("0", 0),
        ("-0", 0),
        ("0.000000000000000000", 0),
        ("1", UNIT),
        ("-35", -35 * UNIT),
        ("2.50", 2_500_000_000_000_000_000),
        ("-0.5", -500_000_000_000_000_000),
        ("0.000000000000000001", 1),
        ("-0.000000000000000001", -1),
        ("0.1", 100_000_000_000_000_000),
        ("007", 7 * UNIT),
        ("999999999999999999.999999999999999999", 999_999_999_999_999_999_999_999_999_999_999_999),
        ("-999999999999999999.999999999999999999", -999_999_999_999_999_999_999_999_999_999_999_999),
    ],
)
def test_text_is_read_exactly(text: str, atto: int) -> None:
    assert to_atto(text) == atto


@pytest.mark.parametrize(
    ("atto", "text"),
    [
        (0, "0"),
        (1, "0.000000000000000001"),
        (-1, "-0.000000000000000001"),
        (UNIT, "1"),
        (100 * UNIT, "100"),
        (1_500_000_000_000_000_000, "1.5"),
        (-1_500_000_000_000_000_000, "-1.5"),
        (999_999_999_999_999_999_999_999_999_999_999_999, "999999999999999999.999999999999999999"),
    ],
)
def test_atto_is_written_without_trailing_zeros(atto: int, text: str) -> None:
    assert to_text(atto) == text


def test_decimal_fractions_are_exact() -> None:
    assert to_text(sum(to_atto("0.1") for _ in range(3))) == "0.3"


@pytest.mark.parametrize(
    ("millionths", "rest", "text"),
    [
        (0, 0, "0"),
        (1, 0, "0.000001"),
        (2_500_000, 0, "2.5"),
        # Half to even: 0.0000005 is 0, 0.0000015 is 0.000002, 0.0000025 is 0.000002.
        (0, -1, "0"),
        (0, 1, "0.000001"),
        (1, -1, "0.000001"),
        (2, 1, "0.000003"),
        (0, "half", "0"),
        (1, "half", "0.000002"),
        (2, "half", "0.000002"),
        (3, "half", "0.000004"),
    ],
)
def test_a_cost_is_rounded_half_to_even_at_6_decimals(millionths: int, rest: int | str, text: str) -> None:
    """`rest`: 0, half a millionth, or one unit-ms-atto more or less than that half."""
    # A millionth is 10**12 atto; costs are sums of ms, of which an hour has 3,600,000.
    half = 10**12 * 3_600_000 // 2
    beyond = {0: 0, "half": half, 1: half + 1, -1: half - 1}[rest]
    cost = millionths * 2 * half + beyond
    assert cost_text(cost) == text
    assert cost_text(-cost) == ("0" if text == "0" else f"-{text}")
