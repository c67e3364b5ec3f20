"""The table views: every row of every table, from any worker, page by page."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from streams.engine.table import TABLES
from streams.web import tables
from streams.web.pages import Pages
from tests.unit.web.support import FakeCluster, serving, utc
from tests.unit.web.test_json import dead_node

if TYPE_CHECKING:
    from tests.unit.web.support import Serving

TOKEN = "0123456789abcdef"  # noqa: S105 - of a test


def fleet() -> FakeCluster:
    """Orgs whose ids sort otherwise as words than as keys: `-` and `.` stand before `/`."""
    world = FakeCluster(partitions=4)
    for org in ("acme", "acme-2", "acme.b", "bolt", "calm"):
        for deployment in ("a", "a-1", "b"):
            world.deploy("12:00", org, deployment, serving="serverless")
    world.tick("12:01")
    return world


KEYS = [
    f"{org}/{deployment}" for org in ("acme", "acme-2", "acme.b", "bolt", "calm") for deployment in ("a", "a-1", "b")
]


async def pages(worker: Serving, path: str) -> list[dict[str, Any]]:
    """Every item of a list, page after page."""
    found, cursor = [], ""
    while True:
        got = (await worker.get(f"{path}{'&' if '?' in path else '?'}cursor={cursor}")).json
        found += got["items"]
        cursor = got["next"]
        if cursor is None:
            return found


async def test_all_tables_are_listed_with_what_a_row_is() -> None:
    async with serving(fleet()) as (worker,):
        got = (await worker.get("/tables/")).json
        assert [item["table"] for item in got["items"]] == list(TABLES)
        assert got["items"][2] == {
            "table": "replicas",
            "description": "A replica (R1).",
            "path": "/tables/replicas/",
        }
        assert (got["next"], got["as_of"]) == (None, utc("12:01"))


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("limit", [1, 2, 7, 14, 15, 16, 1_000])
@pytest.mark.parametrize("slice_ids", [1, 10_000])
async def test_any_worker_lists_every_row_once_in_order(
    workers: int, limit: int, slice_ids: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "SLICE_IDS", slice_ids)
    async with serving(fleet(), workers) as served:
        for worker in served:
            found = await pages(worker, f"/tables/deployments/?limit={limit}")
            assert [item["key"] for item in found] == KEYS
            first = (await worker.get(f"/tables/deployments/?limit={limit}")).json
            assert len(first["items"]) == min(limit, 15)
            assert (first["next"] is None) == (limit >= 15)
            assert first["as_of"] == utc("12:01")


async def test_a_row_is_the_same_from_every_worker_and_in_the_list() -> None:
    async with serving(dead_node(), 3) as workers:
        listed = {item["key"]: item for item in await pages(workers[0], "/tables/windows/")}
        responses = {(await worker.get("/tables/windows/acme/chat-r1.w1")).text for worker in workers}
        assert len(responses) == 1
        row = json.loads(responses.pop())
        # B8: billed to 13:30, of which 31.5 min were sent.
        assert row["row"]["billed_ms"] == 1_890_000
        assert row["row"]["closed_by"]["topic"] == "execlet.progress"
        assert listed == {"acme/chat-r1.w1": {name: row[name] for name in ("key", "partition", "row")}}
        assert row["table"] == "windows"
        assert row["as_of"] == (await workers[0].get("/orgs/acme")).json["as_of"]


async def test_ids_with_a_slash_and_orgs_and_positions_have_rows_too() -> None:
    world = dead_node()
    async with serving(world, 2) as workers:
        for worker in workers:
            event = (await worker.get("/tables/events/acme/execlet.progress/p0")).json
            assert event["row"]["event_id"] == "p0"
            org = (await worker.get("/tables/orgs/acme/acme")).json
            assert (org["key"], org["row"]["org_id"]) == ("acme/acme", "acme")
            assert [item["key"] for item in await pages(worker, "/tables/positions/?limit=1")] == ["0", "1", "2", "3"]
            for partition in range(4):
                position = (await worker.get(f"/tables/positions/{partition}")).json
                assert (position["partition"], position["row"]["as_of"]) == (partition, -1)


async def test_partitions_are_in_order_of_their_numbers() -> None:
    async with serving(FakeCluster(partitions=11), 2) as workers:
        found = await pages(workers[1], "/tables/positions/?limit=3")
        assert [item["key"] for item in found] == [str(number) for number in range(11)]


@pytest.mark.parametrize(
    ("path", "status", "detail"),
    [
        ("/tables/nothing/", 404, "there is no table 'nothing'; there are orgs, deployments, "),
        ("/tables/nothing/acme/x", 404, "there is no table 'nothing'"),
        (
            "/tables/replicas/acme/unknown",
            404,
            "table replicas has no row 'acme/unknown'; /tables/replicas/ lists its rows",
        ),
        ("/tables/replicas/unknown/x", 404, "there is no org unknown"),
        ("/tables/replicas/%3Cb%3E/x", 404, "'<b>' is not an org id"),
        ("/tables/positions/4", 404, "'4' is no partition: they are 0 to 3"),
        ("/tables/positions/01", 404, "'01' is no partition"),
        ("/tables/positions/x", 404, "'x' is no partition"),
        ("/tables/replicas/?limit=0", 400, "limit is a whole number from 1 to 1000"),
        ("/tables/replicas/?cursor=x", 400, "cursor is the next of an earlier response"),
    ],
)
async def test_what_is_not_there_is_a_problem(path: str, status: int, detail: str) -> None:
    async with serving(fleet()) as (worker,):
        got = await worker.get(path)
        assert got.headers["Content-Type"].startswith("application/problem+json")
        assert (got.status, got.json["status"]) == (status, status)
        assert got.json["detail"].startswith(detail)


async def test_a_list_without_all_partitions_is_no_list() -> None:
    world = fleet()
    async with serving(world, 2) as workers:
        world.all[3].ready = False
        for worker in workers:
            got = await worker.get("/tables/deployments/")
            assert (got.status, got.headers["Retry-After"]) == (503, "1")
            assert (await worker.get("/tables/positions/3")).status == 503


async def test_rows_are_only_for_holders_of_the_token() -> None:
    async with serving(fleet(), 2, token=TOKEN) as workers:
        for path in ("/tables/", "/tables/deployments/", "/tables/deployments/acme/a", "/tables/positions/0"):
            for worker in workers:
                assert (await worker.get(path)).status == 401
                assert (await worker.get(path, Authorization=f"Bearer {TOKEN}")).status == 200


async def test_text_of_others_is_shown_as_text() -> None:
    world = FakeCluster()
    world.deploy("12:00", "acme", "chat", model="<script>\u202e'\"&amp;", serving="serverless")
    async with serving(world, render=Pages()) as (worker,):
        for path in ("/tables/deployments/", "/tables/deployments/acme/chat"):
            page = (await worker.get(path, Accept="text/html")).text
            assert "<script>" not in page.replace('<script src="/static/obol.js" defer></script>', "")
            assert "&lt;script&gt;" in page
            assert "\u202e" not in page
