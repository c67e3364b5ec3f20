"""Damage to rows, which only the store may change."""

from typing import Any


def damage(row: Any, **values: int) -> None:
    """Add to fields of a frozen row, behind the back of its store."""
    for name, by in values.items():
        object.__setattr__(row, name, getattr(row, name) + by)
