"""JSON as pages: Jinja2, autoescaped, and the functions of its templates."""

import json
import unicodedata
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from streams.lifecycle.instance import STAGES
from streams.lifecycle.replica import ReplicaStatus
from streams.web import timeline

HERE = Path(__file__).parent


_MOVING = {row.state.value for row in STAGES.values() if row.transitional} | {
    ReplicaStatus.PENDING.value,
    ReplicaStatus.PULLING.value,
    ReplicaStatus.INITING.value,
    ReplicaStatus.RESTARTING.value,
    "restoring",
}
_GOOD = {"running", "created", "ready"}
_BAD = {"failed", "error", "unknown"}
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_UNITS = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000))


class Pages:
    """Renders a template by name."""

    def __init__(self) -> None:
        self._env = Environment(
            loader=FileSystemLoader(HERE / "templates"),
            autoescape=True,
            finalize=visible,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._env.filters.update(
            brief=brief,
            clock=clock,
            duration=duration,
            json=json.dumps,
            number=number,
            shown=shown,
            tone=tone,
            words=words,
        )
        self._env.globals.update(timeline=timeline.build)
        for name in self._env.list_templates():
            # Compiled now: the first request does not wait, and an error in a template is found at the start.
            self._env.get_template(name)

    def __call__(self, template: str, context: dict[str, Any]) -> str:
        """Return the page as text."""
        return self._env.get_template(template).render(context)


def visible(value: object) -> object:
    """Return what a template shows without markup of its own: invisible characters are named, as in `shown`."""
    if isinstance(value, str) and not isinstance(value, Markup) and not value.isprintable():
        return "".join(f"U+{ord(char):04X}" if _is_odd(char) else char for char in value)
    return value


def shown(text: object) -> Markup:
    """Return foreign text so that it can't reorder or break the text around it; invisible characters are named."""
    parts = [
        Markup('<span class="odd">U+{:04X}</span>').format(ord(char)) if _is_odd(char) else escape(char)
        for char in str(text)
    ]
    return Markup("<bdi>{}</bdi>").format(Markup().join(parts))


def _is_odd(char: str) -> bool:
    """Return whether a page would not show it as itself: control, format and surrogate characters, line breaks."""
    return unicodedata.category(char) in {"Cc", "Cf", "Cs", "Zl", "Zp"}


def clock(text: str | None, *, millis: bool = True) -> Markup:
    """Return an RFC 3339 time, short: seconds, and milliseconds where there are any; null is a dash."""
    if text is None:
        return Markup('<span class="none">–</span>')
    fraction = text[19:23] if millis and not text.endswith(".000Z") else ""
    return Markup('<time datetime="{}">{} {}{}</time>').format(text, text[:10], text[11:19], fraction)


def brief(text: str | None) -> Markup:
    """Return the same for a table: the year is in the title only."""
    if text is None:
        return Markup('<span class="none">–</span>')
    day = f"{int(text[8:10])} {_MONTHS[int(text[5:7]) - 1]}"
    fraction = "" if text.endswith(".000Z") else text[19:23]
    return Markup('<time datetime="{0}" title="{0}"><span class="day">{1}</span> {2}{3}</time>').format(
        text, day, text[11:19], fraction
    )


def duration(ms: int | None) -> Markup:
    """Return milliseconds in words, exact: 1,890,000 → 31 min 30 s."""
    if ms is None:
        return Markup('<span class="none">–</span>')
    sign, left = ("−", -ms) if ms < 0 else ("", ms)
    parts = []
    for unit, size in _UNITS:
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count:,} {unit}")
    seconds, millis = divmod(left, 1_000)
    if seconds or millis or not parts:
        parts.append(f"{seconds}{f'.{millis:03}' if millis else ''} s")
    return Markup('<span title="{:,} ms">{}{}</span>').format(ms, sign, " ".join(parts))


def number(value: int | str | None) -> str:
    """Return a count with thousands separated, or money with its whole part so; null is a dash."""
    if value is None:
        return "–"
    if isinstance(value, int):
        return f"{value:,}"
    whole, point, fraction = value.partition(".")
    sign = "−" if whole.startswith("-") else ""
    return f"{sign}{int(whole.lstrip('-')):,}{point}{fraction}"


def words(name: str) -> str:
    """Return a state's name as people write it: pulling_docker_image → pulling docker image."""
    return name.replace("_", " ")


def tone(state: str) -> str:
    """Return the style of a state's badge: good, bad, moving or quiet."""
    if state in _MOVING:
        return "moving"
    if state in _GOOD:
        return "good"
    return "bad" if state in _BAD else "quiet"
