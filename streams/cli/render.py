"""JSON responses as text: fields in two columns, lists of small objects as tables, other lists as blocks."""

from collections.abc import Sequence
from typing import Any, Final

from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from schemas.base import Json
from streams.cli.columns import state_style
from streams.cli.text import duration_text, printable

_PLACE: Final = frozenset({"topic", "partition", "offset", "timestamp"})
_WIDEST_TABLE: Final = 6
_UNITS_MS: Final = {"_ms": 1, "_s": 1_000}


def render(response: Json) -> RenderableType:
    """Return a response as text: first the fields that fit on a line, then nested objects and lists with a title."""
    plain = {name: value for name, value in response.items() if not _has_parts(value)}
    parts: list[RenderableType] = [_fields(plain)] if plain else []
    for name, value in response.items():
        if _has_parts(value):
            inner = render(value) if isinstance(value, dict) else _list(value)
            parts += [Text(f"\n{label(name)}", style="bold"), Padding(inner, (0, 0, 0, 2), expand=False)]
    return Group(*parts)


def label(name: str) -> str:
    """Return a field's name with spaces, and without the unit, which the value shows."""
    for unit in _UNITS_MS:
        name = name.removesuffix(unit)
    return printable(name.replace("_", " "))


def cell(name: str, value: Any) -> Text:
    """Return a value on one line; null as a dash."""
    if value is None:
        return Text("–", style="dim")
    if isinstance(value, bool):
        return Text("yes" if value else "no")
    if isinstance(value, int):
        unit = next((unit for unit in _UNITS_MS if name.endswith(unit)), None)
        return Text(f"{value:,}" if unit is None else duration_text(value * _UNITS_MS[unit]))
    if isinstance(value, str):
        return Text(printable(value), style=state_style(value))
    if isinstance(value, dict):
        return Text(_mapping(value))
    return Text(", ".join(cell(name, part).plain for part in value) or "none")


def _mapping(value: Json) -> str:
    if value.keys() == _PLACE:
        return printable(f"{value['topic']}[{value['partition']}]@{value['offset']}, {value['timestamp']}")
    return ", ".join(f"{label(name)} {cell(name, part).plain}" for name, part in value.items() if part) or "none"


def _has_parts(value: Any) -> bool:
    """Whether a value needs more than a line. A record's position and counts do not."""
    if isinstance(value, dict):
        counts = all(isinstance(part, int) and not name.endswith("_ms") for name, part in value.items())
        return value.keys() != _PLACE and not counts
    return isinstance(value, list) and any(isinstance(part, dict) for part in value)


def _fields(values: Json) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in values.items():
        table.add_row(label(name), cell(name, value))
    return table


def _list(rows: Sequence[Any]) -> RenderableType:
    """Return objects as a table if they have few fields, otherwise as blocks titled by the first field."""
    objects = [row if isinstance(row, dict) else {"": row} for row in rows]
    names = list(dict.fromkeys(name for row in objects for name in row))
    if len(names) <= _WIDEST_TABLE:
        return _table(objects, names)
    blocks: list[RenderableType] = []
    for row in objects:
        (first, title), *rest = row.items()
        blocks += [cell(first, title), Padding(render(dict(rest)), (0, 0, 0, 2), expand=False)]
    return Group(*blocks)


def _table(rows: Sequence[Json], names: Sequence[str]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for name in names:
        table.add_column(label(name), overflow="fold")
    for row in rows:
        table.add_row(*(cell(name, row.get(name)) for name in names))
    return table
