"""Every number against the rules' text, written out by hand."""

import pytest

from streams import limits


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SECOND_MS", 1_000),
        ("MINUTE_MS", 60_000),
        ("HOUR_MS", 3_600_000),
        ("DAY_MS", 86_400_000),
        ("HOUR_S", 3_600),
        ("HEARTBEAT_GRACE_MS", 90_000),  # B3: 90 s
        ("MAX_EVENTS_PER_WINDOW_PER_RECORD", 60),  # B5
        ("MIN_FIRST_REPLICAS", 1),  # P2, P7
        ("STOP_TIMEOUT_MS", 1_800_000),  # I1: 30 min
        ("START_TIMEOUT_MS", 1_800_000),  # I1: 30 min
        ("MAX_INSTANCES", 25),  # I5
        ("MAX_RESULTS_WITH_REASON", 10_000),  # C1
        ("DEBT_MS", 86_400_000),  # I8: 24 h
        ("DEBT_LIMIT", -35),  # I8
        ("ERROR_EXPIRY_MS", 3_600_000),  # I9: 1 h
        ("DEDUPE_MS", 86_400_000),  # C1, C4: 24 h
        ("MAX_VALUE_BYTES", 65_536),  # dead letters: 64 KiB
        ("MAX_DEPTH", 32),  # dead letters
    ],
)
def test_number(name: str, value: int) -> None:
    assert getattr(limits, name) == value
    assert type(getattr(limits, name)) is int
    assert name in limits.__all__


def test_no_number_is_untested() -> None:
    (table,) = [mark for mark in test_number.pytestmark if mark.name == "parametrize"]  # type: ignore[attr-defined]
    assert sorted(limits.__all__) == sorted(name for name, _ in table.args[1])
