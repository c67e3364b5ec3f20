"""Any worker responds for any org, in one hop; access control."""

from __future__ import annotations

import base64

import pytest

from streams.web.responses import prefers_html
from tests.unit.web.support import FakeCluster, serving

TOKEN = "0123456789abcdef"  # noqa: S105 - of a test


def fleet_of(orgs: int) -> FakeCluster:
    world = FakeCluster(partitions=6)
    for number in range(orgs):
        world.deploy("12:00", f"org{number}", "chat", serving="serverless")
    return world


async def test_three_workers_give_the_same_bytes_for_every_org() -> None:
    async with serving(fleet_of(20), 3) as workers:
        for number in range(20):
            responses = {(await worker.get(f"/orgs/org{number}/deployments?limit=1")).text for worker in workers}
            assert len(responses) == 1
            assert '"deployment_id":"chat"' in responses.pop()


async def test_every_page_of_orgs_comes_from_a_worker_that_has_none_of_them() -> None:
    world = FakeCluster(partitions=2)
    orgs = [org for org in (f"org{number:02}" for number in range(30)) if world.shard_of(org).partition == 0]
    for org in orgs:
        world.deploy("12:00", org, "chat", serving="serverless")
    async with serving(world, 2) as workers:
        for worker in workers:
            found: list[str] = []
            cursor: str | None = ""
            while cursor is not None:
                got = (await worker.get(f"/orgs?limit=3&cursor={cursor}")).json
                found += [item["org_id"] for item in got["items"]]
                cursor = got["next"]
            assert found == orgs


async def test_an_owner_that_is_unknown_gone_or_restoring_is_503_with_retry_after() -> None:
    world = fleet_of(1)
    partition = world.shard_of("org0").partition
    async with serving(world, 2) as workers:
        asked = next(worker for worker in workers if worker.url != world.owners[partition])
        world.shard_of("org0").ready = False
        for worker in workers:
            restoring = await worker.get("/orgs/org0")
            assert (restoring.status, restoring.json["state"]) == (503, "restoring")
            assert "Retry-After" in restoring.headers
        world.owners[partition] = "http://127.0.0.1:1"
        gone = await asked.get("/orgs/org0")
        assert (gone.status, gone.headers["Retry-After"]) == (503, "1")
        del world.owners[partition]
        unknown = await asked.get("/orgs/org0")
        assert (unknown.status, unknown.headers["Retry-After"]) == (503, "1")


async def test_a_forwarded_request_is_not_forwarded_again() -> None:
    world = fleet_of(1)
    async with serving(world, 2) as workers:
        asked = next(worker for worker in workers if worker.url != world.owners[world.shard_of("org0").partition])
        assert (await asked.get("/orgs/org0", Obol_Forwarded="1")).status == 503


async def test_a_token_is_required_and_passed_on() -> None:
    async with serving(fleet_of(6), 2, token=TOKEN) as workers:
        for worker in workers:
            for path in ("/", "/health", "/orgs/org0"):
                refused = await worker.get(path)
                assert refused.status == 401
                assert refused.headers.getall("WWW-Authenticate")[0].startswith("Bearer")
                assert (await worker.get(path, Authorization="Bearer 0123456789abcde")).status == 401
                assert (await worker.get(path, Authorization="Basic !!!")).status == 401
                assert (await worker.get(path, Authorization="Bearer 0123456789abcdef")).status == 200
                basic = base64.b64encode(b"anyone:0123456789abcdef").decode()
                assert (await worker.get(path, Authorization=f"Basic {basic}")).status == 200
            assert len((await worker.get("/", Authorization="Bearer 0123456789abcdef")).json["partitions"]) == 6


async def test_without_a_token_only_requests_to_own_host_names_have_access() -> None:
    async with serving(fleet_of(1)) as (worker,):
        assert (await worker.get("/health", Host="localhost:6066")).status == 200
        assert (await worker.get("/health", Host="[::1]:6066")).status == 200
        assert (await worker.get("/health", Host="evil.example")).status == 421


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
async def test_views_only_read(method: str) -> None:
    async with serving(fleet_of(1)) as (worker,):
        for path in ("/", "/orgs/org0", "/nowhere"):
            got = await worker.get(path, method)
            assert got.status == 405
            assert got.headers["Allow"] == "GET, HEAD"
            assert got.json["status"] == 405


async def test_every_response_is_secured() -> None:
    async with serving(fleet_of(1)) as (worker,):
        for path in ("/", "/orgs/org0", "/nowhere", "/prices"):
            headers = (await worker.get(path)).headers
            assert headers["X-Content-Type-Options"] == "nosniff"
            assert headers["Cache-Control"] == "no-store"
            assert "default-src 'none'" in headers["Content-Security-Policy"]
            assert headers["Server"] == "obol"


@pytest.mark.parametrize(
    ("accept", "html"),
    [
        ("", False),
        ("*/*", False),
        ("application/json", False),
        ("text/html", True),
        ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", True),
        ("application/json, text/html;q=0.9", False),
        ("text/html;q=0.9, application/json;q=0.8", True),
        ("text/html;q=0, */*", False),
        ("text/*", True),
        ("text/html;q=x", False),
        ("text/html, application/json", False),
    ],
)
def test_html_only_for_those_who_prefer_it(*, accept: str, html: bool) -> None:
    assert prefers_html(accept) is html
