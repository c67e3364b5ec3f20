"""JSON answers for reading: fields in two columns, lists of objects as tables, at any depth."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from streams.cli.columns import state_style
from streams.cli.words import printable

Json = Mapping[str, Any]


def render(answer: Json) -> RenderableType:
    """The whole answer: plain fields first, then what has parts, each under its name."""
    plain = {name: value for name, value in answer.items() if not _has_parts(value)}
    parts: list[RenderableType] = [_fields(plain)] if plain else []
    for name, value in answer.items():
        if _has_parts(value):
            inner = render(value) if isinstance(value, Mapping) else _table(value)
            parts += [Text(f"\n{label(name)}", style="bold"), Padding(inner, (0, 0, 0, 2))]
    return Group(*parts)


def label(name: str) -> str:
    """A field's name as a person reads it; it stays the contract's word."""
    return printable(name.replace("_", " "))


def cell(value: Any) -> Text:
    """One plain value; null is a dash."""
    if value is None:
        return Text("–", style="dim")
    if isinstance(value, bool):
        return Text("yes" if value else "no")
    if isinstance(value, str):
        return Text(printable(value), style=state_style(value))
    if isinstance(value, Sequence):
        return Text(", ".join(map(_word, value)) or "–")
    if isinstance(value, Mapping):
        return Text(", ".join(f"{label(name)} {_word(part)}" for name, part in value.items()) or "–")
    return Text(f"{value:,}" if isinstance(value, int) else str(value))


def _word(value: Any) -> str:
    return cell(value).plain


def _has_parts(value: Any) -> bool:
    if isinstance(value, Mapping):
        return bool(value)
    return isinstance(value, list) and any(isinstance(part, Mapping) for part in value)


def _fields(values: Json) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in values.items():
        table.add_row(label(name), cell(value))
    return table


def _table(rows: Sequence[Any]) -> Table:
    """Objects as rows. Columns that are empty in all of them are left out: nothing is said by them."""
    objects = [row if isinstance(row, Mapping) else {"": row} for row in rows]
    names = list(dict.fromkeys(name for row in objects for name in row))
    names = [name for name in names if any(row.get(name) not in (None, [], {}) for row in objects)]
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for name in names:
        numbers = all(isinstance(row.get(name), int) and not isinstance(row.get(name), bool) for row in objects)
        table.add_column(label(name), justify="right" if numbers else "left", overflow="fold")
    for row in objects:
        table.add_row(*(cell(row.get(name)) for name in names))
    return table
