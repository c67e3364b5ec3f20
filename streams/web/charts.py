"""The picture of the fleet's last 24 hours: bars per hour, drawn by the server. Made from the view's JSON."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from schemas.base import Json

BAR_WIDTH: Final = 18
PANEL_HEIGHT: Final = 64
TITLE_HEIGHT: Final = 18
HOUR_STEP: Final = 6
"""Every so many bars, the time of day is written below."""


class Bar(NamedTuple):
    """A bar of one hour, and its title for readers."""

    x: int
    y: int
    height: int
    title: str


class Panel(NamedTuple):
    """The bars of one figure: `top` is where its title is, `base` the line on which they are drawn."""

    title: str
    top: int
    base: int
    bars: Sequence[Bar]


class Chart(NamedTuple):
    """Panels one below the other over the same hours. `steps`: where which time of day is written."""

    width: int
    height: int
    panels: Sequence[Panel]
    steps: Sequence[tuple[int, str]]


_FIGURES: Final = (("events", "Usage events per hour"), ("dedicated_replicas", "Dedicated replicas running"))


def last_hours(hours: Sequence[Json]) -> Chart:
    """Draw the hours of the fleet's view."""
    panels = []
    top = 0
    for name, title in _FIGURES:
        most = max((hour[name] for hour in hours), default=0)
        base = top + TITLE_HEIGHT + PANEL_HEIGHT
        bars = []
        for number, hour in enumerate(hours):
            # A number above zero is visible, however small.
            height = max(1, PANEL_HEIGHT * hour[name] // most) if hour[name] else 0
            bars.append(Bar(number * BAR_WIDTH, base - height, height, f"{hour['hour'][11:16]}: {hour[name]:,}"))
        panels.append(Panel(f"{title}, at most {most:,}", top + TITLE_HEIGHT - 6, base, bars))
        top = base + 6
    steps = [(number * BAR_WIDTH, hour["hour"][11:16]) for number, hour in enumerate(hours) if number % HOUR_STEP == 0]
    return Chart(len(hours) * BAR_WIDTH, top + TITLE_HEIGHT, panels, steps)
