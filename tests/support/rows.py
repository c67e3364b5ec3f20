"""Changes rows without their store, to test that checks find it."""

from typing import Any


def damage(row: Any, **values: int) -> None:
    """Add to fields of a frozen row without its store."""
    for name, by in values.items():
        object.__setattr__(row, name, getattr(row, name) + by)
