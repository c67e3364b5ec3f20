"""JSON answers for reading: fields in two columns, short lists as tables, whole rows one under the other."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from streams.cli.columns import state_style
from streams.cli.words import duration_text, printable

Json = Mapping[str, Any]

_PLACE: Final = frozenset({"topic", "partition", "offset", "timestamp"})
_WIDEST_TABLE: Final = 6
_UNITS_MS: Final = {"_ms": 1, "_s": 1_000}


def render(answer: Json) -> RenderableType:
    """The whole answer: what is said in a line first, then what has parts, each under its name."""
    plain = {name: value for name, value in answer.items() if not _has_parts(value)}
    parts: list[RenderableType] = [_fields(plain)] if plain else []
    for name, value in answer.items():
        if _has_parts(value):
            inner = render(value) if isinstance(value, Mapping) else _list(value)
            parts += [Text(f"\n{label(name)}", style="bold"), Padding(inner, (0, 0, 0, 2), expand=False)]
    return Group(*parts)


def label(name: str) -> str:
    """A field's name as a person reads it: the contract's word, without the unit that its value now has."""
    for unit in _UNITS_MS:
        name = name.removesuffix(unit)
    return printable(name.replace("_", " "))


def cell(name: str, value: Any) -> Text:
    """One value in a line; null is a dash."""
    if value is None:
        return Text("–", style="dim")
    if isinstance(value, bool):
        return Text("yes" if value else "no")
    if isinstance(value, int):
        unit = next((unit for unit in _UNITS_MS if name.endswith(unit)), None)
        return Text(f"{value:,}" if unit is None else duration_text(value * _UNITS_MS[unit]))
    if isinstance(value, str):
        return Text(printable(value), style=state_style(value))
    if isinstance(value, Mapping):
        return Text(_mapping(value))
    return Text(", ".join(cell(name, part).plain for part in value) or "none")


def _mapping(value: Json) -> str:
    if value.keys() == _PLACE:
        return printable(f"{value['topic']}[{value['partition']}]@{value['offset']}, {value['timestamp']}")
    return ", ".join(f"{label(name)} {cell(name, part).plain}" for name, part in value.items() if part) or "none"


def _has_parts(value: Any) -> bool:
    """Whether a line is too little for it. Records and counts fit into one."""
    if isinstance(value, Mapping):
        counts = all(isinstance(part, int) and not name.endswith("_ms") for name, part in value.items())
        return value.keys() != _PLACE and not counts
    return isinstance(value, list) and any(isinstance(part, Mapping) for part in value)


def _fields(values: Json) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in values.items():
        table.add_row(label(name), cell(name, value))
    return table


def _list(rows: Sequence[Any]) -> RenderableType:
    """Objects: as a table where they are small, else one under the other, each under its first field."""
    objects = [row if isinstance(row, Mapping) else {"": row} for row in rows]
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
