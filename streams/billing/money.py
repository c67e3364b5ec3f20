"""Money as exact integers: one currency unit is 10**18 atto (contract: at most 18 digits on each side of the point)."""

from streams.limits import HOUR_MS

SCALE_DIGITS = 18
ATTO: int = 10**SCALE_DIGITS


def to_atto(text: str) -> int:
    """Return `text`, a decimal string of the contract, in atto; exact."""
    sign, digits = (-1, text[1:]) if text.startswith("-") else (1, text)
    whole, _, fraction = digits.partition(".")
    return sign * (int(whole) * ATTO + int(fraction.ljust(SCALE_DIGITS, "0")))


def to_text(atto: int) -> str:
    """Return `atto` as a decimal string without trailing zeros: 1500000000000000000 → "1.5"."""
    whole, fraction = divmod(abs(atto), ATTO)
    digits = f"{whole}.{fraction:0{SCALE_DIGITS}d}".rstrip("0").rstrip(".")
    return f"-{digits}" if atto < 0 else digits


def cost_text(unit_ms_atto: int) -> str:
    """Return a sum of unit-ms times atto per hour as an amount, rounded half to even at 6 decimals (U1)."""
    # One millionth of the currency is 10**12 atto; an hour has 3,600,000 ms.
    millionth = 10 ** (SCALE_DIGITS - 6) * HOUR_MS
    whole, rest = divmod(abs(unit_ms_atto), millionth)
    if 2 * rest > millionth or (2 * rest == millionth and whole % 2):
        whole += 1
    return to_text((-whole if unit_ms_atto < 0 else whole) * 10 ** (SCALE_DIGITS - 6))
