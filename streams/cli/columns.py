"""Records as lines of text: the columns of each topic."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rich.text import Text

from schemas.base import Json
from streams.cli.text import printable

_GOOD: Final = "green"
_BAD: Final = "red"
_QUIET: Final = "dim"

_STATE_STYLES: Final = {
    "running": _GOOD,
    "accepted": _GOOD,
    "failed": _BAD,
    "error": _BAD,
    "rejected": _BAD,
    "restarting": "yellow",
    "stopped": _QUIET,
    "destroyed": _QUIET,
}


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its title, its minimum width, and the function that returns a record's cell."""

    title: str
    width: int
    cell: Callable[[Json], str]
    style: Callable[[str], str] = lambda _: ""


def _field(name: str) -> Callable[[Json], str]:
    return lambda values: _text(values.get(name))


def _text(value: Any) -> str:
    if value is None:
        return ""
    return printable(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def state_style(word: str) -> str:
    """Return the colour of a state or an outcome; "" for any other word."""
    return _STATE_STYLES.get(word, "")


def _quiet(_: str) -> str:
    return _QUIET


def _owner(values: Json) -> str:
    return _text(values.get("replica_id") or values.get("instance_id"))


def _seconds(values: Json) -> str:
    ms = values.get("duration_ms")
    return f"{ms / 1_000:.3f} s" if isinstance(ms, int) else ""


def _attempt(values: Json) -> str:
    attempt = values.get("attempt")
    return "" if attempt is None else f"attempt {attempt}"


def _place(values: Json) -> str:
    return f"{_text(values.get('topic'))}[{_text(values.get('partition'))}]@{_text(values.get('offset'))}"


_ORG: Final = Column("ORG", 12, _field("org_id"))

COLUMNS: Final[dict[str, tuple[Column, ...]]] = {
    "croesus.usage": (
        Column("INTERVAL START", 24, _field("interval_start"), _quiet),
        Column("DURATION", 9, _seconds),
        _ORG,
        Column("OWNER", 20, _owner),
        Column("PROFILE", 20, _field("profile")),
        Column("QUANTITY", 8, _field("quantity")),
        Column("WINDOW", 0, _field("window_id"), _quiet),
    ),
    "croesus.credits": (
        Column("INTERVAL START", 24, _field("interval_start"), _quiet),
        Column("DURATION", 9, _seconds),
        _ORG,
        Column("OWNER", 20, _owner),
        Column("PROFILE", 20, _field("profile")),
        Column("REASON", 11, _field("reason")),
        Column("NOTE", 20, _field("note")),
        Column("USAGE EVENT", 0, _field("usage_id"), _quiet),
    ),
    "org.notices": (
        Column("AT", 24, _field("at"), _quiet),
        _ORG,
        Column("KIND", 18, _field("kind")),
        Column("THRESHOLD", 9, _field("threshold_s")),
        Column("BALANCE", 14, _field("balance")),
        Column("BURN/H", 12, _field("burn_per_hour")),
        Column("RUNWAY", 0, _field("runway_s")),
    ),
    "lifecycle.changes": (
        Column("AT", 24, _field("at"), _quiet),
        _ORG,
        Column("KIND", 10, _field("kind")),
        Column("ID", 20, _field("id")),
        Column("FROM", 24, _field("from"), state_style),
        Column("TO", 24, _field("to"), state_style),
        Column("REASON", 20, _field("reason")),
        Column("ERROR", 0, _field("error_message"), lambda _: _BAD),
    ),
    "command.results": (
        Column("AT", 24, _field("at"), _quiet),
        _ORG,
        Column("OUTCOME", 8, _field("outcome"), state_style),
        Column("CODE", 20, _field("code"), lambda _: _BAD),
        Column("TARGET", 16, _field("target")),
        Column("COMMAND", 20, _field("command_id"), _quiet),
        Column("MESSAGE", 0, _field("message")),
    ),
    "execlet.orders": (
        Column("ORDER", 14, _field("order")),
        _ORG,
        Column("FOR", 20, _owner),
        Column("ATTEMPT", 10, _attempt),
        Column("ORDER ID", 0, _field("order_id"), _quiet),
    ),
    "dead.letters": (
        Column("REASON", 18, _field("reason"), lambda _: _BAD),
        Column("RECORD", 28, _place),
        Column("ERROR", 0, _field("error")),
    ),
}
COLUMNS["host.orders"] = COLUMNS["execlet.orders"]


def header(columns: Sequence[Column]) -> Text:
    """Return the header line."""
    return Text("  ".join(column.title.ljust(column.width) for column in columns).rstrip(), style="bold")


def line(columns: Sequence[Column], values: Json) -> Text:
    """Return one record as a line. A cell longer than its column is not cut; it moves the rest of the line."""
    text = Text()
    for column in columns:
        cell = column.cell(values)
        text.append(cell, style=column.style(cell))
        text.append(" " * (max(0, column.width - len(cell)) + 2))
    text.rstrip()
    return text
