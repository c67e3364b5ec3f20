"""A window's horizon, pieces and figures, case by case (B3 to B7, B10, B12). Times are minutes:seconds of one hour."""

import pytest

from streams.billing.windows import (
    Figures,
    Origin,
    Window,
    figures,
    horizon,
    is_settled,
    next_pieces,
)

HERE = Origin("obol.clock", 0, 0)
BASE = 1_796_385_600_000  # 2026-12-04T08:00:00.000Z, a whole hour


def ms(text: str) -> int:
    """`mm:ss[.mmm]` past the base, in ms."""
    minutes, _, seconds = text.partition(":")
    return BASE + int(minutes) * 60_000 + round(float(seconds) * 1_000)


def window(opened: str, health: str | None, ended: str | None = None, billed_until: str | None = None) -> Window:
    opened_at = ms(opened)
    return Window(
        org_id="acme",
        window_id="d1-r1.w1",
        meter="dedicated" if health else "gpu",
        owner_id="d1-r1",
        deployment_id="d1",
        profile="dedicated.h100.1x",
        quantity=1,
        opened_at=opened_at,
        billed_until=ms(billed_until or opened),
        last_health_check=ms(health) if health else None,
        opened_by=HERE,
        ended_at=ms(ended) if ended else None,
        closed_by=HERE if ended else None,
        billed_ms=ms(billed_until or opened) - opened_at,
    )


HORIZONS = [
    # opened, last health check, ended, now, horizon
    # Open: the minute that holds now, or the one that holds the heartbeat + 90 s where that is sooner.
    ("00:00", "05:00", None, "05:30", "05:00"),
    ("00:00", "05:00", None, "06:00", "06:00"),
    ("00:00", "05:00", None, "06:29.999", "06:00"),
    ("00:00", "05:00", None, "06:30", "06:00"),
    ("00:00", "05:00", None, "59:00", "06:00"),
    ("00:00", "05:30", None, "59:00", "07:00"),  # 05:30 + 90 s is 07:00 to the second
    ("00:00", "05:29.999", None, "59:00", "06:00"),
    # Never before it opened, however short it is.
    ("05:20", "05:20", None, "05:40", "05:20"),
    ("05:20", "05:20", None, "06:00", "06:00"),
    ("05:20", "05:20", None, "59:00", "06:00"),
    ("05:20", "05:20", None, "04:00", "05:20"),  # a tick that came out of order
    # Closed: to the millisecond, and now does not matter.
    ("00:00", "05:00", "06:29.999", "06:30", "06:29.999"),
    ("00:00", "05:00", "06:30", "06:30", "06:30"),
    ("00:00", "05:00", "06:30.001", "07:00", "06:30"),
    ("00:00", "05:00", "59:00", "59:00", "06:30"),
    ("00:00", "05:00", "05:00.123", "07:00", "05:00.123"),
    ("05:20", "05:20", "05:20", "07:00", "05:20"),
    # An instance's meter has no heartbeat.
    ("00:10", None, None, "05:30", "05:00"),
    ("00:10", None, "05:30.500", "05:31", "05:30.500"),
]


@pytest.mark.parametrize(("opened", "health", "ended", "now", "expected"), HORIZONS)
def test_horizon(opened: str, health: str | None, ended: str | None, now: str, expected: str) -> None:
    assert horizon(window(opened, health, ended), ms(now)) == ms(expected)


def test_first_and_last_piece_of_a_closed_window_are_short() -> None:
    short = window("00:20.500", "02:00", ended="02:40.250")
    assert list(next_pieces(short, ms("03:00"))) == [
        (ms("00:20.500"), ms("01:00")),
        (ms("01:00"), ms("02:00")),
        (ms("02:00"), ms("02:40.250")),
    ]


def test_an_open_window_is_cut_at_whole_minutes_only() -> None:
    assert list(next_pieces(window("00:20.500", "02:00"), ms("02:40.250"))) == [
        (ms("00:20.500"), ms("01:00")),
        (ms("01:00"), ms("02:00")),
    ]


def test_sixty_pieces_at_a_time() -> None:
    long = window("00:30", None, ended="150:10")
    first = list(next_pieces(long, ms("151:00")))
    assert len(first) == 60
    assert first[0] == (ms("00:30"), ms("01:00"))
    assert first[-1] == (ms("59:00"), ms("60:00"))


FIGURES = [
    # opened, health, ended, billed until, as of -> running, billed, pending, forgiven, overbilled (ms)
    # Open: what is not billed is pending, however long heartbeats have been missing (B7).
    ("00:00", "05:00", None, "05:00", "05:30", (330_000, 300_000, 30_000, 0, 0)),
    ("00:00", "05:00", None, "05:00", "04:30", (300_000, 300_000, 0, 0, 0)),  # as of a time before the watermark
    ("00:00", "05:00", None, "06:00", "50:00", (3_000_000, 360_000, 2_640_000, 0, 0)),
    # Closed, not yet billed to its end: forgiven from the close on (B6).
    ("00:00", "05:00", "59:00", "04:00", "59:00", (3_540_000, 240_000, 150_000, 3_150_000, 0)),
    ("00:00", "05:00", "06:00", "04:00", "59:00", (360_000, 240_000, 120_000, 0, 0)),
    # Closed before what was billed (B10).
    ("00:00", "05:00", "04:40", "05:00", "59:00", (280_000, 300_000, 0, 0, 20_000)),
]


@pytest.mark.parametrize(("opened", "health", "ended", "billed_until", "as_of", "expected"), FIGURES)
def test_every_millisecond_is_accounted_for(
    opened: str, health: str, ended: str | None, billed_until: str, as_of: str, expected: tuple[int, ...]
) -> None:
    found = figures(window(opened, health, ended, billed_until), ms(as_of))
    assert found == Figures(*expected)
    assert found.unexplained_ms == 0


@pytest.mark.parametrize(
    ("health", "ended", "billed_until", "expected"),
    [
        ("05:00", "59:00", "06:30", True),
        ("05:00", "59:00", "06:29.999", False),
        ("05:00", "04:40", "05:00", True),
        ("05:00", "05:30", "05:00", False),
        ("05:00", None, "05:00", False),
    ],
)
def test_a_window_is_settled_once_closed_and_billed_up_to_its_horizon(
    health: str, ended: str | None, billed_until: str, *, expected: bool
) -> None:
    assert is_settled(window("00:00", health, ended, billed_until), ms("60:00")) is expected
