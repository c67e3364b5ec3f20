"""Requests, times and rows that no honest client or producer sends: each gets a response, and none is a 500."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from schemas.times import MAX_TIME_MS
from streams.web import base
from streams.web.mount import WEB_APPLICATION_OPTIONS
from streams.web.pages import Pages
from tests.unit.web.support import serving, utc
from tests.unit.web.test_json import dead_node
from tests.unit.web.test_pages import PAGE, Reader, busy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from tests.unit.web.support import Serving

HEADERS = b"Host: 127.0.0.1\r\nConnection: close\r\n"
DEADLINE_S = 10.0
PAGES = Pages()


async def raw(worker: Serving, request: bytes) -> bytes:
    """What a worker sends back for these bytes, up to the end of the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(worker.url.rpartition(":")[2]))
    writer.write(request)
    await writer.drain()
    try:
        return await asyncio.wait_for(reader.read(), DEADLINE_S)
    finally:
        writer.close()


@pytest.fixture
async def worker() -> AsyncIterator[Serving]:
    async with serving(busy(), render=PAGES) as (one,):
        yield one


@pytest.mark.parametrize("accept", ["text/html", "application/json"])
@pytest.mark.parametrize(
    ("target", "status"),
    [
        ("/orgs/%FF", 404),
        ("/%ff%fe", 404),
        ("/orgs/%ED%A0%80", 404),
        ("/search?q=%FF", 200),
        ("/search?q=%00", 200),
        ("/search?q=" + "a" * 7_000, 200),
        ("/orgs/" + "a" * 7_000, 404),
        ("/orgs/acme/replicas/" + "a" * 7_000, 404),
        ("/orgs/acme/deployments?q=%ED%A0%80&status=", 200),
        ("/orgs/acme/deployments?q=%FF&limit=1", 200),
        ("/orgs/acme/deployments?limit=1&limit=99999", 200),
        ("/orgs/acme/deployments?limit=99999999999999999999", 400),
        ("/orgs/acme/deployments?cursor=" + "9" * 6_000, 400),
        ("/orgs/acme/deployments?status=%0d%0aSet-Cookie:a", 400),
        ("/orgs/acme/explain/x%0d%0aSet-Cookie:a", 400),
        ("/orgs/acme/explain/chat-r1:9999-12-31T23:59:59.999Z", 200),
        ("/orgs/acme/explain/chat-r1:1970-01-01T00:00:00.000Z", 200),
        ("/orgs/acme/explain/chat-r1:0000-01-01T00:00:00.000Z", 400),
        ("//evil.example/orgs/acme", 404),
        ("/orgs/../orgs/acme", 404),
        ("/orgs/%2e%2e/static/obol.css", 404),
        ("/static/..%2f..%2fsettings.py", 404),
        ("/static/%2e%2e/pages.py", 404),
        ("/static/%2fetc%2fpasswd", 404),
        ("/tables/positions/" + "9" * 5_000, 404),
        ("/tables/%FF/acme/x", 404),
        ("/tables/replicas/acme/%FF", 404),
        ("/tables/replicas/?cursor=%FF", 400),
        ("/%3Cscript%3Ealert(1)%3C/script%3E", 404),
    ],
)
async def test_an_odd_target_gets_a_response(worker: Serving, target: str, status: int, accept: str) -> None:
    head, _, body = (
        await raw(worker, f"GET {target} HTTP/1.1\r\nAccept: {accept}\r\n".encode() + HEADERS + b"\r\n")
    ).partition(b"\r\n\r\n")
    assert head.split()[1] == str(status).encode(), head
    assert b"Set-Cookie" not in head
    assert b"X-Content-Type-Options: nosniff" in head
    if accept == "text/html":
        assert Reader(body.decode()).inline == []
        assert b"<script>" not in body
    else:
        assert body.isascii()
        json.loads(body)


@pytest.mark.parametrize("method", ["OPTIONS", "TRACE", "CONNECT", "POST", "PROPFIND"])
async def test_another_method_is_not_allowed(worker: Serving, method: str) -> None:
    for target in ("/orgs/acme", "*", "evil.example:80"):
        head = await raw(worker, f"{method} {target} HTTP/1.1\r\n".encode() + HEADERS + b"\r\n")
        assert head.split()[1] in {b"405", b"400"}, head


async def test_head_is_get_without_the_body(worker: Serving) -> None:
    for target in ("/orgs/acme", "/orgs/unknown", "/ready"):
        request = b" " + target.encode() + b" HTTP/1.1\r\n" + HEADERS + b"\r\n"
        got, head = await raw(worker, b"GET" + request), await raw(worker, b"HEAD" + request)
        assert head.endswith(b"\r\n\r\n")
        assert [line for line in got.split(b"\r\n\r\n")[0].split(b"\r\n") if not line.startswith(b"Date")] == [
            line for line in head.split(b"\r\n\r\n")[0].split(b"\r\n") if not line.startswith(b"Date")
        ]


@pytest.mark.parametrize(
    "request_line",
    [b"GET /orgs/\xff\xfe HTTP/1.1", b"GET @evil/orgs/acme HTTP/1.1", b"GET / HTTP/9.9", b"GARBAGE", b"\x16\x03\x01"],
)
async def test_what_is_not_http_is_one_line_in_the_log(request_line: bytes, caplog: pytest.LogCaptureFixture) -> None:
    async with serving(dead_node(), application=WEB_APPLICATION_OPTIONS) as (one,):
        with caplog.at_level(logging.DEBUG):
            response = await raw(one, request_line + b"\r\n" + HEADERS + b"\r\n")
        assert response.split()[1] == b"400"
        lines = [record for record in caplog.records if record.name == "streams.web.http"]
        assert len(lines) == 1
        assert lines[0].levelno <= logging.INFO
        assert lines[0].exc_info is None
        assert "\n" not in lines[0].getMessage()


async def test_a_cursor_of_another_list_is_refused(worker: Serving) -> None:
    got = await worker.get("/orgs/acme/deployments?limit=1")
    cursor = got.json["next"]
    assert (await worker.get(f"/orgs/acme/deployments?limit=1&cursor={cursor}")).status == 200
    for path in (
        "/orgs/acme/instances",
        "/orgs/calm/deployments",
        "/orgs",
        "/prices",
        "/orgs/acme/deployments/chat/replicas",
    ):
        refused = await worker.get(f"{path}?cursor={cursor}")
        assert (refused.status, refused.json["title"]) == (400, "Bad Request")


@pytest.mark.parametrize("as_of", [-1, MAX_TIME_MS + 1, 1_796_032_000_000_000, 2**63 - 1])
@pytest.mark.parametrize("headers", [{}, PAGE])
async def test_an_odd_as_of_is_shown_as_the_first_or_last_time_there_is(as_of: int, headers: dict[str, str]) -> None:
    world = busy()
    for shard in world.all:
        shard.as_of = as_of
    world.prices_as_of = as_of
    expected = "1970-01-01T00:00:00.000Z" if as_of < 0 else "9999-12-31T23:59:59.999Z"
    async with serving(world, render=PAGES) as (one,):
        for path in (
            "/",
            "/ready",
            "/health",
            "/partitions",
            "/orgs",
            "/search?q=chat",
            "/prices",
            "/orgs/acme",
            "/orgs/acme/deployments",
            "/orgs/acme/deployments/chat",
            "/orgs/acme/replicas/chat-r1",
            "/orgs/acme/replicas/more-00-r1",
            "/orgs/acme/instances?include_destroyed=true",
            "/orgs/acme/instances/two",
            "/orgs/acme/windows/chat-r1.w1",
            f"/orgs/acme/explain/chat-r1:{utc('12:31')}",
        ):
            got = await one.get(path, **headers)
            assert got.status == 200, (path, got.text)
            if not headers:
                assert got.json["as_of"] == expected, path
        assert (await one.get("/orgs/unknown")).json["as_of"] == expected


@pytest.mark.parametrize("odd", [-1, 1_796_032_000_000_000])
async def test_a_row_with_an_odd_time_is_shown(odd: int) -> None:
    """Rows that an older version made of a record with a timestamp out of range."""
    world = busy()
    org = world.shard_of("acme").store.orgs["acme"]
    replica = org.replicas["more-00-r1"]
    for row, names in (
        (replica.open_windows[0], ("opened_at", "billed_until", "last_health_check")),
        (replica, ("created_at",)),
        (org.deployments["more-00"], ("created_at", "active_at")),
        (org.instances["two"], ("created_at", "entered_at")),
        (org.org, ("empty_since",)),
    ):
        for name in names:
            object.__setattr__(row, name, odd)
    world.prices.history["disk"][0] = replace(world.prices.history["disk"][0], at_ms=odd)
    async with serving(world, render=PAGES) as (one,):
        for path in (
            "/",
            "/prices",
            "/orgs/acme",
            "/orgs/acme/deployments/more-00",
            "/orgs/acme/replicas/more-00-r1",
            "/orgs/acme/replicas/more-00-r1/windows",
            "/orgs/acme/instances/two",
            "/orgs/acme/windows/more-00-r1.w1",
            "/tables/replicas/acme/more-00-r1",
            "/tables/instances/",
            f"/orgs/acme/explain/more-00-r1:{utc('13:36')}",
        ):
            for headers in ({}, PAGE):
                got = await one.get(path, **headers)
                assert got.status == 200, (path, got.text)


HOSTILE = (
    "<script>window.pwned=1</script><img src=x onerror=window.pwned=1>",
    "\"' onload=x><svg/onload=window.pwned=1>{{7*7}}",
    "javascript:alert(1)",
    "a\u202eb\u2066c\u200bd\x00\r\n\x1b[31m",
    "\ud800",
)


@pytest.mark.parametrize("text", HOSTILE)
async def test_no_text_of_a_row_is_markup(text: str) -> None:
    """Every text that is shown, also those that the schemas would not let in."""
    world = busy()
    org = world.shard_of("acme").store.orgs["acme"]
    for row in (*org.deployments.values(), *org.instances.values()):
        for name in ("model", "gpu_type", "serving", "offer_id", "mode", "image", "error_code", "error_message"):
            if hasattr(row, name):
                object.__setattr__(row, name, text)
    world.prices.history[text] = world.prices.history.pop("disk")
    world.currency = text
    world.all[0].counters["dead", text] = world.all[0].counters["ignored", text] = 3
    async with serving(world, render=PAGES) as (one,):
        for path in (
            "/",
            "/prices",
            "/orgs/acme",
            "/orgs/acme/deployments",
            "/orgs/acme/deployments/chat",
            "/orgs/acme/instances?include_destroyed=true",
            "/orgs/acme/instances/one",
            f"/orgs/acme/explain/chat-r1:{utc('12:31')}",
        ):
            got = await one.get(path, **PAGE)
            assert got.status == 200, (path, got.text)
            page = Reader(got.text)
            assert page.inline == [], path
            assert not [link for link in page.links if not link.startswith(("/", "#"))], path
            assert not set(got.text) & set("\u202e\u2066\u200b\x00\x1b\r"), path
            assert "<script>" not in got.text
            assert "<svg/" not in got.text
            assert (await one.get(path)).text.isascii()


async def test_a_client_that_sends_no_request_is_disconnected() -> None:
    options = {"handler_args": {**WEB_APPLICATION_OPTIONS["handler_args"], "keepalive_timeout": 0.2}}
    async with serving(dead_node(), application=options) as (one,):
        assert await raw(one, b"GET / HTTP/1.1\r\nHost: 127") == b""


async def test_a_client_that_does_not_read_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "SEND_TIMEOUT_S", 0.2)

    def large(_template: str, _context: dict[str, object]) -> str:
        return "x" * 50_000_000

    async with serving(dead_node(), render=large) as (one,):
        with socket.create_connection(("127.0.0.1", int(one.url.rpartition(":")[2]))) as client:
            client.sendall(b"GET / HTTP/1.1\r\nAccept: text/html\r\n" + HEADERS + b"\r\n")
            await until(lambda: one.connections == 1)
            await until(lambda: one.connections == 0)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not condition():  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0.01)
