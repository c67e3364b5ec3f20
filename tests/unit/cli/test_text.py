from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.cli.failure import Failure
from streams.cli.text import duration_text, parse_time, printable, time_text

NOW_MS = 1_764_417_600_000  # 2025-11-29T12:00:00Z

HOSTILE = [
    ("plain ü 漢字", "plain ü 漢字"),
    ("a\nb\r\0", "a\\nb\\r\\u0000"),
    ("\x1b[2J", "\\u001b[2J"),
    ("\x9b31m", "\\u009b31m"),
    ("safe\u202eexe.txt", "safe\\u202eexe.txt"),
    ("a\u200bb\u2028c", "a\\u200bb\\u2028c"),
    ("\ud800", "\\ud800"),
    ("\U000e0041", "\\udb40\\udc41"),
    ("[bold]no[/bold]", "[bold]no[/bold]"),
]


@pytest.mark.parametrize(("text", "shown"), HOSTILE)
def test_control_characters_are_escaped(text: str, shown: str) -> None:
    assert printable(text) == shown


@given(st.text())
def test_json_stays_json_with_the_same_meaning(text: str) -> None:
    assert json.loads(printable(json.dumps({"message": text}, ensure_ascii=False))) == {"message": text}


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("2025-11-29T12:00:00Z", NOW_MS),
        ("2025-11-29T12:00:00.250Z", NOW_MS + 250),
        ("2025-11-29T13:00:00+01:00", NOW_MS),
        ("1764417600000", NOW_MS),
        ("0", 0),
        ("now", NOW_MS),
        ("250ms", NOW_MS - 250),
        ("90s", NOW_MS - 90_000),
        ("10m", NOW_MS - 600_000),
        ("2h", NOW_MS - 7_200_000),
        ("1d", NOW_MS - 86_400_000),
        ("999999999d", 0),
    ],
)
def test_times(text: str, ms: int) -> None:
    assert parse_time(text, "--at", lambda: NOW_MS) == ms


@pytest.mark.parametrize(
    "text",
    [
        "",
        "soon",
        "12:00",
        "2025-11-29",
        "2025-11-29T12:00:00",
        "-5",
        "10 m",
        "5y",
        "1e3",
        "\u0967\u0966m",
        "99999999999999999",
    ],
)
def test_invalid_times(text: str) -> None:
    with pytest.raises(Failure, match="--at") as failure:
        parse_time(text, "--at", lambda: NOW_MS)
    assert failure.value.code == 2


@given(st.integers(min_value=0, max_value=253_402_300_799_999))
def test_a_formatted_time_parses(ms: int) -> None:
    assert parse_time(time_text(ms), "--at", lambda: NOW_MS) == ms


def test_a_time_out_of_range_is_a_number() -> None:
    assert time_text(-1) == "-1 ms"


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "0 s"),
        (1, "0.001 s"),
        (90_000, "1 min 30 s"),
        (60_250, "1 min 0.250 s"),
        (3_600_000, "1 h"),
        (2 * 86_400_000 + 5_000, "2 d 5 s"),
        (-1_500, "-1.500 s"),
    ],
)
def test_durations(ms: int, text: str) -> None:
    assert duration_text(ms) == text
