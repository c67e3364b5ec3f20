"""An org's usage by day: what was used, what it costs at Obol's prices, and what was credited (rule U1)."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Final, NamedTuple

from aiohttp import web

from schemas.base import Json
from schemas.times import MAX_TIME_MS
from streams.billing.burn import burn_per_hour
from streams.billing.money import cost_text
from streams.rules.rows import DayUsage
from streams.rules.store import OrgRows, day_start
from streams.web.paging import Place
from streams.web.responses import bad_request
from streams.web.shapes import Valuation

DEFAULT_DAYS: Final = 30

MOST_EMPTY_DAYS: Final = 100
"""A picture of more days than these starts with the first that has usage, and ends with the last."""

_DAY: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


class Span(NamedTuple):
    """The days that are asked for: [`start`, `until`)."""

    start: str
    until: str


def requested_span(request: web.Request, as_of_ms: int) -> Span:
    """Return `?from=` and `?until=`; by default the last 30 days, today included. Raises `Problem`."""
    until = _day(request, "until") or _today(as_of_ms) + timedelta(days=1)
    start = _day(request, "from") or until - timedelta(days=DEFAULT_DAYS)
    if start >= until:
        raise bad_request(f"from ({start}) must be before until ({until}), which is exclusive")
    return Span(start.isoformat(), until.isoformat())


def rows_of(org: OrgRows, span: Span) -> list[DayUsage]:
    """Return the org's rows of those days, in order of day, type and profile."""
    found = (row for row in org.day_usage.values() if span.start <= row.day < span.until)
    return sorted(found, key=place)


def last_days(org: OrgRows, as_of_ms: int) -> "Picture":
    """Draw the last 30 days of an org, today included."""
    until = _today(as_of_ms) + timedelta(days=1)
    span = Span((until - timedelta(days=DEFAULT_DAYS)).isoformat(), until.isoformat())
    return picture(rows_of(org, span), span, bar_width=10, height=80)


def place(row: DayUsage) -> Place:
    """Return the sort key of a row in a list."""
    return day_start(row.day), row.row_id


def item(row: DayUsage) -> Json:
    """Return a day's usage of one type and profile (contract)."""
    return {
        "day": row.day,
        "type": row.type,
        "profile": row.profile,
        "billed_unit_ms": row.billed,
        "credited_unit_ms": row.credited,
        "cost": cost_text(int(row.cost)),
        "credited_cost": cost_text(int(row.credited_cost)),
    }


def month(valuation: Valuation, org: OrgRows) -> Json:
    """Return the cost of the current month so far, and of the whole month at the present burn."""
    today = _today(valuation.as_of)
    first = today.replace(day=1)
    following = (first + timedelta(days=32)).replace(day=1)
    rows = rows_of(org, Span(first.isoformat(), following.isoformat()))
    net = sum(int(row.cost) - int(row.credited_cost) for row in rows)
    left_ms = max(0, day_start(following.isoformat()) - valuation.as_of)
    burn = burn_per_hour(org.units, valuation.prices, valuation.as_of)
    return {"month": first.isoformat()[:7], "to_date": cost_text(net), "at_end": cost_text(net + burn * left_ms)}


class Bar(NamedTuple):
    """A part of a picture: a rectangle, its title for readers, and the number of its pattern."""

    x: int
    y: int
    height: int
    title: str
    pattern: int


class Day(NamedTuple):
    """A day's cost, what was credited of it, and the difference, over all profiles."""

    day: str
    cost: str
    credited_cost: str
    net: str


class Picture(NamedTuple):
    """Bars per day: cost above the line, credits below it; `line` is its height from the top. `days`: the numbers."""

    width: int
    height: int
    line: int
    bar_width: int
    bars: Sequence[Bar]
    legend: Sequence[str]
    days: Sequence[Day]


def picture(rows: Iterable[DayUsage], span: Span, *, bar_width: int = 14, height: int = 160) -> Picture:
    """Draw the cost of each day by profile, and the credits below the line."""
    by_day: dict[str, list[DayUsage]] = defaultdict(list)
    for row in rows:
        by_day[row.day].append(row)
    profiles = sorted({row.profile for day in by_day.values() for row in day})
    up = max((sum(int(row.cost) for row in day) for day in by_day.values()), default=0)
    down = max((sum(int(row.credited_cost) for row in day) for day in by_day.values()), default=0)
    line = height * up // (up + down) if up + down else height
    start, end = _drawn(span, by_day)
    bars: list[Bar] = []
    for day, found in sorted(by_day.items()):
        x = (date.fromisoformat(day) - start).days * bar_width
        above, below = line, line
        for row in sorted(found, key=lambda row: row.profile):
            pattern = profiles.index(row.profile)
            cost, credited = int(row.cost), int(row.credited_cost)
            if cost:
                size = max(1, line * cost // up)
                above -= size
                bars.append(Bar(x, above, size, f"{day} {row.profile}: {cost_text(cost)}", pattern))
            if credited:
                size = max(1, (height - line) * credited // down)
                title = f"{day} {row.profile}: {cost_text(credited)} credited"
                bars.append(Bar(x, below, size, title, pattern))
                below += size
    days = [_day_of(day, found) for day, found in sorted(by_day.items())]
    return Picture((end - start).days * bar_width, height, line, bar_width, bars, profiles, days)


def _drawn(span: Span, by_day: Mapping[str, object]) -> tuple[date, date]:
    """Return the days to draw: those asked for, or if these are very many, those with usage."""
    start, end = date.fromisoformat(span.start), date.fromisoformat(span.until)
    if (end - start).days > MOST_EMPTY_DAYS and by_day:
        start, end = date.fromisoformat(min(by_day)), date.fromisoformat(max(by_day)) + timedelta(days=1)
    return start, end


def _day_of(day: str, rows: Iterable[DayUsage]) -> Day:
    cost, credited = (sum(int(getattr(row, name)) for row in rows) for name in ("cost", "credited_cost"))
    return Day(day, cost_text(cost), cost_text(credited), cost_text(cost - credited))


def _today(as_of_ms: int) -> date:
    today = datetime.fromtimestamp(min(max(0, as_of_ms), MAX_TIME_MS) // 1_000, UTC).date()
    # The calendar ends with the year 9999; a picture of that month needs a month after it.
    return min(today, date.max - timedelta(days=62))


def _day(request: web.Request, name: str) -> date | None:
    text = request.query.get(name)
    if not text:
        return None
    try:
        if _DAY.fullmatch(text):
            return date.fromisoformat(text)
    except ValueError:
        pass
    raise bad_request(f"{name} is a day such as 2026-11-29")
