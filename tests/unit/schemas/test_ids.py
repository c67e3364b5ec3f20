"""The constrained types: tables of valid and invalid values (contract, "Conventions")."""

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from schemas import ids

ID = TypeAdapter[str](ids.Id)


def accepts(kind: Any, value: object) -> bool:
    try:
        TypeAdapter(kind).validate_python(value, strict=True)
    except ValidationError:
        return False
    return True


GOOD_IDS = ["a", "Z", "0", "a.b_c-D9", "a--", "9..", "x" * 128]
BAD_IDS = [
    "",
    ".a",
    "_a",
    "-a",
    "a b",
    "a/b",
    "a:b",
    "é",
    "\N{ARABIC-INDIC DIGIT ONE}",
    "a\n",
    "\na",
    "a\x00",
    "x" * 129,
    7,
    None,
    True,
    b"a",
]


@pytest.mark.parametrize("text", GOOD_IDS)
def test_good_ids(text: str) -> None:
    assert accepts(ids.Id, text)


@pytest.mark.parametrize("text", BAD_IDS)
def test_bad_ids(text: object) -> None:
    assert not accepts(ids.Id, text)


def test_ids_from_which_longer_ones_are_built_are_shorter() -> None:
    assert accepts(ids.LongLivedId, "x" * 112)
    assert not accepts(ids.LongLivedId, "x" * 113)
    assert not accepts(ids.LongLivedId, "x\n")


@pytest.mark.parametrize("text", ["h100", "a", "0x", "rtx_4090-24", "x" * 32])
def test_good_gpu_types(text: str) -> None:
    assert accepts(ids.GpuType, text)


@pytest.mark.parametrize("text", ["", "H100", "_a", "-a", "a.b", "h100\n", "x" * 33, "٣"])
def test_bad_gpu_types(text: str) -> None:
    assert not accepts(ids.GpuType, text)


@pytest.mark.parametrize(
    ("kind", "low", "high"),
    [
        (ids.GpuCount, 1, 16),
        (ids.DiskGb, 1, 65_536),
        (ids.Int64, -9_223_372_036_854_775_808, 9_223_372_036_854_775_807),
    ],
)
def test_integers_are_bounded_and_strict(kind: Any, low: int, high: int) -> None:
    assert [accepts(kind, value) for value in (low - 1, low, high, high + 1)] == [False, True, True, False]
    assert not any(accepts(kind, value) for value in (1.0, True, "1", None))


@pytest.mark.parametrize("text", ["0", "-0", "1.5", "-12.250", "007", "9" * 18, f"{'9' * 18}.{'9' * 18}"])
def test_good_money(text: str) -> None:
    assert accepts(ids.Money, text)


@pytest.mark.parametrize(
    "text",
    ["", "+1", "1.", ".5", "1e3", "1,5", " 1", "1 ", "1\n", "--1", "٣", "NaN", "9" * 19, f"1.{'9' * 19}", 1, 1.5, None],
)
def test_bad_money(text: object) -> None:
    assert not accepts(ids.Money, text)


@pytest.mark.parametrize(
    ("text", "good"), [("0", True), ("-0", True), ("-0.00", True), ("3.5", True), ("-0.01", False), ("-1", False)]
)
def test_a_price_is_not_negative(text: str, good: bool) -> None:  # noqa: FBT001 - a table's column
    assert accepts(ids.NonNegativeMoney, text) is good


def test_texts_have_1_to_512_characters() -> None:
    assert [accepts(ids.Text512, text) for text in ("", "x", "é" * 512, "x" * 513)] == [False, True, True, False]


def test_a_message_is_cut_never_refused() -> None:
    message = TypeAdapter[str](ids.Message)
    assert message.validate_python("x" * 4_096 + "y") == "x" * 4_096
    assert message.validate_python("") == ""
