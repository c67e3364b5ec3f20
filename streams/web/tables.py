"""Faust's tables as views: every table, a table's rows, one row, as they are kept.

Rows are listed in order of (org, id), over all workers. A page is found by going through the ids in slices, so that a
table of a million rows does not keep the event loop from other work.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from heapq import nsmallest
from typing import Any, Final

from aiohttp import web
from pydantic import TypeAdapter
from typing_extensions import TypedDict

from schemas.base import Json
from streams.engine import position as positions
from streams.engine import rows
from streams.readmodel.items import Head
from streams.rules.store import OrgRows
from streams.web import search as searching
from streams.web.base import Handler, ViewResponse, own_as_of
from streams.web.forward import HOP_HEADER
from streams.web.paging import write_cursor
from streams.web.queries import requested_page
from streams.web.responses import not_found
from streams.web.shapes import Valuation
from streams.web.source import ShardWithPosition, Source
from streams.web.summary import smallest
from streams.web.times import time_or_null

Place = tuple[str, str]
"""A row's place in the order: its org and its id. A position has none, and its partition's number."""

SLICE_IDS = 10_000
"""So many ids are looked at before other work gets a turn: a few milliseconds."""


Make = Callable[[Valuation, OrgRows], ViewResponse]


class _Item(TypedDict):
    key: str
    partition: int
    row: Json | None


class _Rows(TypedDict):
    items: list[_Item]
    heads: list[Head]
    next: str | None


_ROWS: Final = TypeAdapter[Any](_Rows)


class Tables:
    """The views under `/tables/` of one worker.

    `of_org` responds from the rows of the request's org, `of_partition` from a partition, each where it is assigned.
    `ask_others` returns the JSON that each other worker has at a path; `check_all_ready` raises unless the heads of all
    partitions are ready.
    """

    def __init__(
        self,
        source: Source,
        *,
        of_org: Callable[
            [web.Request, Callable[[Valuation, OrgRows], ViewResponse]], Awaitable[ViewResponse | web.Response]
        ],
        of_partition: Callable[[web.Request, int, str], Awaitable[ShardWithPosition | web.Response]],
        ask_others: Callable[[str, TypeAdapter[Any]], Awaitable[list[Any]]],
        check_all_ready: Callable[[list[Json]], None],
    ) -> None:
        self._source = source
        self._of_org = of_org
        self._of_partition = of_partition
        self._ask_others = ask_others
        self._check_all_ready = check_all_ready

    def views(self) -> dict[str, Handler]:
        """Return every path with its handler."""
        return {
            "/tables/": self.tables,
            "/tables/{table}/": self.table,
            f"/tables/{positions.TABLE}/{{partition}}": self.position,
            "/tables/{table}/{org}/{id:.+}": self.row,
        }

    async def tables(self, _: web.Request) -> ViewResponse:
        """`/tables/`."""
        items = [
            {"table": table, "description": description, "path": f"/tables/{table}/"}
            for table, description in rows.DESCRIPTIONS.items()
        ]
        return ViewResponse("tables.html", {"items": items, "next": None, "as_of": own_as_of(self._source)})

    async def table(self, request: web.Request) -> ViewResponse:
        """`/tables/{table}/`: the rows of all partitions."""
        table, path = _table(request), request.path
        limit, requested_after = requested_page(request)
        after = _place(table, "" if requested_after is None else requested_after[1])
        found = await rows_after([shard for shard in self._source.shards() if shard.ready], table, after, limit + 1)
        heads, more = searching.heads(self._source), False
        if HOP_HEADER not in request.headers:
            cursor = "" if requested_after is None else f"&cursor={write_cursor(path, requested_after)}"
            for other in await self._ask_others(f"{path}?limit={limit}{cursor}", _ROWS):
                found += other["items"]
                heads += other["heads"]
                more |= other["next"] is not None
            self._check_all_ready(heads)
        found.sort(key=lambda item: _place(table, item["key"]))
        more |= len(found) > limit
        items = found[:limit]
        value = {
            "table": table,
            "description": rows.DESCRIPTIONS[table],
            "items": items,
            "next": write_cursor(path, (0, items[-1]["key"]) if more and items else None),
            "as_of": smallest(heads),
            "heads": heads,
        }
        return ViewResponse("table.html", value)

    async def row(self, request: web.Request) -> ViewResponse | web.Response:
        """`/tables/{table}/{org}/{id}`."""
        table, row_id = _table(request), request.match_info["id"]

        def make(valuation: Valuation, org: OrgRows) -> ViewResponse:
            key = f"{org.org.org_id}/{row_id}"
            found = rows.org_row(org, table, row_id)
            if found is None:
                raise not_found(
                    f"table {table} has no row {key!a}; /tables/{table}/ lists its rows",
                    as_of=time_or_null(valuation.as_of),
                )
            value = {"table": table, **_item(valuation.partition, key, found), "as_of": time_or_null(valuation.as_of)}
            return ViewResponse("row.html", value)

        return await self._of_org(request, make)

    async def position(self, request: web.Request) -> ViewResponse | web.Response:
        """`/tables/positions/{partition}`."""
        key = request.match_info["partition"]
        if not re.fullmatch(r"0|[1-9][0-9]{0,5}", key) or int(key) >= self._source.partitions:
            raise not_found(f"{key!a} is no partition: they are 0 to {self._source.partitions - 1}")
        shard = await self._of_partition(request, int(key), f"partition {key}")
        if isinstance(shard, web.Response):
            return shard
        value = _item(shard.partition, key, rows.row(shard, positions.TABLE, key))
        return ViewResponse("row.html", {"table": positions.TABLE, **value, "as_of": time_or_null(shard.as_of)})


async def rows_after(shards: Sequence[ShardWithPosition], table: str, after: Place, count: int) -> list[Json]:
    """Return the first `count` rows after `after` in these partitions, in order."""
    if table == positions.TABLE:
        return [
            _item(shard.partition, key, rows.row(shard, table, key))
            for shard in sorted(shards, key=lambda shard: shard.partition)
            if _place(table, key := str(shard.partition)) > after
        ][:count]
    orgs: list[tuple[str, ShardWithPosition]] = []
    for shard in shards:
        orgs += [(org_id, shard) for org_id in await _orgs_from(shard, table, after[0], count + 1)]
    items: list[Json] = []
    for org_id, shard in sorted(orgs, key=lambda found: found[0]):
        org = shard.store.orgs.get(org_id)
        if org is None or len(items) == count:
            continue
        after_id = after[1] if org_id == after[0] else ""
        for row_id in await _first(org.table(table), after_id.__lt__, count - len(items)):
            row = rows.org_row(org, table, row_id)
            if row is not None:
                items.append(_item(shard.partition, f"{org_id}/{row_id}", row))
    return items


async def _orgs_from(shard: ShardWithPosition, table: str, first: str, count: int) -> list[str]:
    """Return the `count` smallest ids, from `first` on, of a partition's orgs that have a row in `table`."""
    orgs = shard.store.orgs

    def has_rows(org_id: str) -> bool:
        org = orgs.get(org_id)
        return org_id >= first and org is not None and len(org.table(table)) > 0

    return await _first(orgs, has_rows, count)


async def _first(names: Iterable[str], keep: Callable[[str], bool], count: int) -> list[str]:
    """Return the `count` smallest names that `keep` holds for, in order."""
    found: list[str] = []
    every = list(names)
    for start in range(0, len(every), SLICE_IDS):
        found = nsmallest(count, [*found, *filter(keep, every[start : start + SLICE_IDS])])
        await asyncio.sleep(0)
    return found


def _table(request: web.Request) -> str:
    table = request.match_info["table"]
    if table not in rows.DESCRIPTIONS:
        raise not_found(f"there is no table {table!a}; there are {', '.join(rows.DESCRIPTIONS)}")
    return table


def _place(table: str, key: str) -> Place:
    """The place of a row; padded, so that partitions are in order of their numbers."""
    if table == positions.TABLE:
        return "", key.zfill(6) if key else ""
    org_id, _, row_id = key.partition("/")
    return org_id, row_id


def _item(partition: int, key: str, row: Json | None) -> Json:
    return {"key": key, "partition": partition, "row": row}
