"""Lists: the order is kept up with a table that changes under it, however it changes."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.web.order import BadPage, Ordered, read_cursor, read_limit, write_cursor


@dataclass(eq=False)
class Row:
    row_id: str
    created_at: int


def everything(order: Ordered[Row], limit: int) -> list[str]:
    found: list[str] = []
    after = None
    while True:
        page = order.page(limit, after, lambda _: True)
        found += [row.row_id for row in page.items]
        if page.next is None:
            return found
        after = read_cursor(page.next)


@given(
    steps=st.lists(st.tuples(st.sampled_from(["add", "drop", "look"]), st.integers(0, 30), st.integers(0, 5))),
    limit=st.integers(1, 4),
)
def test_every_row_stands_once_oldest_first(steps: list[tuple[str, int, int]], limit: int) -> None:
    table: dict[str, Row] = {}
    order = Ordered(table)
    for what, number, created_at in steps:
        name = f"r{number:02}"
        if what == "add" and name not in table:
            table[name] = Row(name, created_at)
        elif what == "drop":
            table.pop(name, None)
        else:
            everything(order, limit)
    expected = [row.row_id for row in sorted(table.values(), key=lambda row: (row.created_at, row.row_id))]
    assert everything(order, limit) == expected


def test_a_cursor_survives_its_way_through_an_address() -> None:
    place = (1_790_000_000_000, "chat-large.v2_x")
    assert read_cursor(write_cursor(place)) == place
    assert read_cursor(None) is None
    assert read_cursor("") is None


@pytest.mark.parametrize("text", ["!", "e30", "WzEsIDJd", "W10", "bnVsbA", "W" * 10_000, "é"])
def test_what_is_no_cursor_is_refused(text: str) -> None:
    with pytest.raises(BadPage, match="cursor"):
        read_cursor(text)


@pytest.mark.parametrize(("text", "limit"), [(None, 100), ("", 100), ("1", 1), ("1000", 1_000)])
def test_limits(text: str | None, limit: int) -> None:
    assert read_limit(text) == limit


@pytest.mark.parametrize("text", ["0", "1001", "-1", "1e3", "٣", "9" * 5_000])
def test_what_is_no_limit_is_refused(text: str) -> None:
    with pytest.raises(BadPage, match="1 to 1000"):
        read_limit(text)
