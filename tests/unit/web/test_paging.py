"""Lists: the order is kept up with a table that changes under it, however it changes."""

from __future__ import annotations

import base64
import json
import re
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.web.paging import BadPage, SortedRows, page_of, read_cursor, read_limit, write_cursor


@dataclass(eq=False)
class Row:
    row_id: str
    created_at: int


def everything(rows: SortedRows[Row], limit: int) -> list[str]:
    found: list[str] = []
    after = None
    while True:
        page = rows.page(limit, after, lambda _: True)
        found += [row.row_id for row in page.items]
        if page.last is None:
            return found
        after = page.last


@given(
    steps=st.lists(st.tuples(st.sampled_from(["add", "drop", "look"]), st.integers(0, 30), st.integers(0, 5))),
    limit=st.integers(1, 4),
)
def test_every_row_stands_once_oldest_first(steps: list[tuple[str, int, int]], limit: int) -> None:
    table: dict[str, Row] = {}
    rows = SortedRows(table)
    for what, number, created_at in steps:
        name = f"r{number:02}"
        if what == "add" and name not in table:
            table[name] = Row(name, created_at)
        elif what == "drop":
            table.pop(name, None)
        else:
            everything(rows, limit)
    expected = [row.row_id for row in sorted(table.values(), key=lambda row: (row.created_at, row.row_id))]
    assert everything(rows, limit) == expected


@given(st.lists(st.tuples(st.integers(0, 9), st.text("ab", max_size=2)), unique=True), st.integers(1, 4))
def test_pages_of_a_sorted_list_are_the_list(places: list[tuple[int, str]], limit: int) -> None:
    places.sort()
    found: list[tuple[int, str]] = []
    after = None
    while True:
        page = page_of(places, lambda place: place, limit, after)
        assert len(page.items) <= limit
        found += page.items
        after = page.last
        if after is None:
            assert found == places
            return


LIST = "/orgs/acme/deployments"


def test_a_cursor_survives_its_way_through_an_address() -> None:
    place = (1_790_000_000_000, "chat-large.v2_x")
    cursor = write_cursor(LIST, place)
    assert cursor is not None
    assert re.fullmatch("[A-Za-z0-9_-]+", cursor)
    assert read_cursor(LIST, cursor) == place
    assert read_cursor(LIST, None) is None
    assert read_cursor(LIST, "") is None
    assert write_cursor(LIST, None) is None


@pytest.mark.parametrize("other", ["/orgs/acme/instances", "/orgs/other/deployments", "/orgs", "/prices"])
def test_a_cursor_of_another_list_is_refused(other: str) -> None:
    with pytest.raises(BadPage, match="cursor"):
        read_cursor(other, write_cursor(LIST, (1, "chat")))


def encoded(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


TAG = json.loads(base64.urlsafe_b64decode(str(write_cursor(LIST, (1, "chat"))) + "=="))[0]


@pytest.mark.parametrize(
    "text",
    ["!", "e30", "WzEsIDJd", "W10", "bnVsbA", "W" * 10_000, "é", "9" * 6_000]
    + [encoded(value) for value in ([1, "chat"], [TAG, True, "x"], [TAG, None, "x"], [TAG, 1, 2], [TAG, 1.5, "x"])]
    + [encoded([TAG, 1]), encoded([TAG, 1, "x", 2]), encoded({"a": 1, "b": 2, "c": 3}), encoded([[], 1, "x"])],
)
def test_what_is_no_cursor_is_refused(text: str) -> None:
    with pytest.raises(BadPage, match="cursor"):
        read_cursor(LIST, text)


@pytest.mark.parametrize(("text", "limit"), [(None, 100), ("", 100), ("1", 1), ("1000", 1_000)])
def test_limits(text: str | None, limit: int) -> None:
    assert read_limit(text) == limit


@pytest.mark.parametrize("text", ["0", "1001", "-1", "1e3", "٣", "9" * 5_000])
def test_what_is_no_limit_is_refused(text: str) -> None:
    with pytest.raises(BadPage, match="1 to 1000"):
        read_limit(text)
