"""Requests to other workers: the token stays secret, and a malformed response is not used."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web

from streams.web import forward
from streams.web.forward import is_confidential
from streams.web.pages import Pages
from tests.unit.web.support import FakeCluster, serving

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.unit.web.support import Serving

TOKEN = "0123456789abcdef"  # noqa: S105 - of a test
AUTHORIZED = {"Authorization": f"Bearer {TOKEN}"}
PAGES = Pages()


NAME = "obol-2.example"


@pytest.fixture(autouse=True)
def resolved(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `NAME` be this machine."""
    resolve = socket.getaddrinfo

    def getaddrinfo(host: Any, *arguments: Any, **named: Any) -> Any:
        return resolve("127.0.0.1" if host == NAME else host, *arguments, **named)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)


class Other:
    """Another worker, whose responses a test chooses."""

    def __init__(self) -> None:
        self.requests: list[web.Request] = []
        self.response: dict[str, Any] = {"body": b"{}", "content_type": "application/json"}
        self.port = 0

    async def respond(self, request: web.Request) -> web.Response:
        self.requests.append(request)
        return web.Response(**self.response)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def elsewhere(self) -> str:
        """Its address by a name that only `resolved` knows, as if it were on another machine."""
        return f"http://{NAME}:{self.port}"


@asynccontextmanager
async def other_owner(**options: Any) -> AsyncIterator[tuple[Serving, Other, FakeCluster]]:
    """A worker, and another one that owns the partition of org `acme`."""
    world = FakeCluster(partitions=3)
    world.deploy("12:00", "acme", "chat", serving="serverless")
    other = Other()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", other.respond)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    other.port = runner.addresses[0][1]
    try:
        async with serving(world, **options) as (worker,):
            world.owners[world.shard_of("acme").partition] = other.url
            yield worker, other, world
    finally:
        await runner.cleanup()


@pytest.mark.parametrize(
    "path", ["/", "/partitions", "/orgs", "/search?q=chat", "/orgs/acme", "/orgs/acme/deployments"]
)
async def test_the_token_is_not_sent_in_clear_text_to_another_machine(path: str) -> None:
    async with other_owner(token=TOKEN) as (worker, other, world):
        world.owners[world.shard_of("acme").partition] = other.elsewhere
        refused = await worker.get(path, **AUTHORIZED)
        assert refused.status == 502
        assert other.requests == []
        assert other.elsewhere in refused.json["detail"]
        assert "OBOL_HTTP_FORWARD_INSECURE=1" in refused.json["detail"]
        worker.site.forwarder.insecure = True
        await worker.get(path, **AUTHORIZED)
        assert [request.headers["Authorization"] for request in other.requests] == [f"Bearer {TOKEN}"]


async def test_the_token_is_sent_to_this_machine() -> None:
    async with other_owner(token=TOKEN) as (worker, other, _):
        assert (await worker.get("/orgs/acme", **AUTHORIZED)).status == 200
        (request,) = other.requests
        assert request.headers["Authorization"] == f"Bearer {TOKEN}"


async def test_what_a_client_sends_as_credentials_is_not_passed_on() -> None:
    async with other_owner() as (worker, other, _):
        await worker.get("/orgs/acme", Authorization="Bearer of-another-service", Cookie="a=b", X_Api_Key="c")
        (request,) = other.requests
        assert {"Authorization", "Cookie", "X-Api-Key"}.isdisjoint(request.headers)


@pytest.mark.parametrize(
    ("url", "confidential"),
    [
        ("https://obol-1.example", True),
        ("http://127.0.0.1:6066", True),
        ("http://127.8.9.1", True),
        ("http://[::1]:6066", True),
        ("http://localhost:6066", True),
        ("http://10.0.0.1:6066", False),
        ("http://obol-1:6066", False),
        ("http://localhost.example", False),
        ("http://127.0.0.1.example", False),
        ("http://127.0.0.1@evil.example", False),
        ("ftp://127.0.0.1.example", False),
        ("", False),
    ],
)
def test_which_addresses_are_confidential(*, url: str, confidential: bool) -> None:
    assert is_confidential(url) is confidential


@pytest.mark.parametrize("path", ["/", "/orgs/acme"])
async def test_a_redirect_is_not_followed(path: str) -> None:
    async with other_owner(token=TOKEN) as (worker, other, _):
        other.response = {"status": 302, "headers": {"Location": f"{other.elsewhere}/stolen"}}
        got = await worker.get(path, **AUTHORIZED)
        assert got.status in {302, 503}
        assert "Location" not in got.headers
        assert [request.path for request in other.requests] == ["/partitions" if path == "/" else path]


async def test_the_target_of_a_request_does_not_choose_the_worker() -> None:
    """A target in absolute form has a scheme and a host of its own."""
    async with other_owner() as (worker, other, _):
        for target in ("http://127.0.0.1/orgs/acme?limit=1", "h.evil.example://x/orgs/acme?limit=1"):
            reader, writer = await asyncio.open_connection("127.0.0.1", int(worker.url.rpartition(":")[2]))
            writer.write(f"GET {target} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode())
            await asyncio.wait_for(reader.read(), 10)
            writer.close()
        assert {request.path_qs for request in other.requests} <= {"/orgs/acme?limit=1"}
        assert {request.host for request in other.requests} == {other.url.removeprefix("http://")}


async def test_a_path_arrives_as_it_was_sent() -> None:
    async with other_owner() as (worker, other, _):
        path = "/orgs/acme/replicas/a%2Fb%3F%25?q=%2F%26x&limit=1"
        reader, writer = await asyncio.open_connection("127.0.0.1", int(worker.url.rpartition(":")[2]))
        writer.write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode())
        await asyncio.wait_for(reader.read(), 10)
        writer.close()
        assert [request.raw_path for request in other.requests] == [path]


async def test_a_body_without_end_is_not_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forward, "MAX_BODY_BYTES", 1_000)
    async with other_owner() as (worker, other, _):
        other.response = {"body": b" " * 1_000, "content_type": "application/json"}
        assert (await worker.get("/orgs/acme")).status == 200
        other.response = {"body": b" " * 1_001, "content_type": "application/json"}
        assert (await worker.get("/orgs/acme")).status == 503
        assert (await worker.get("/")).status == 503


def mutations(value: Any) -> list[Any]:
    """`value` with each part of it, at any depth, missing or of another type."""
    found: list[Any] = ["x", -1, None, [None]]
    if isinstance(value, dict):
        for name, part in value.items():
            found += [{**value, name: other} for other in mutations(part)]
            found.append({key: one for key, one in value.items() if key != name})
    elif isinstance(value, list):
        found += [[*value[:at], other, *value[at + 1 :]] for at, part in enumerate(value) for other in mutations(part)]
    return found


@pytest.mark.parametrize("path", ["/partitions", "/orgs?limit=100", "/search?q=chat"])
async def test_a_malformed_response_is_not_used(path: str, caplog: pytest.LogCaptureFixture) -> None:
    """Whatever another worker sends, there is no 500: it is used whole, or as if that worker had not responded."""
    async with other_owner(render=PAGES) as (worker, other, world):
        partition = world.shard_of("acme").partition
        world.owners[partition] = worker.url
        world.owners = dict.fromkeys(range(3), worker.url)
        good = (await worker.get(path, Obol_Forwarded="1")).json
        world.owners[partition] = other.url
        bodies = [json.dumps(one).encode() for one in mutations(good)]
        bodies += [b"", b"{", b"\xff", b"[" * 100_000, b'{"items":[],"heads":[]}', b"9" * 5_000]
        seen = set()
        with caplog.at_level(logging.WARNING):
            for body in bodies:
                other.response = {"body": body, "content_type": "application/json"}
                got = await worker.get("/" if path == "/partitions" else path, Accept="text/html")
                assert got.status in {200, 503}, (body, got.text)
                seen.add(got.status)
        assert seen == {200, 503}
        lines = [record.getMessage() for record in caplog.records if "malformed" in record.message]
        assert len(lines) == 1
        assert other.url in lines[0]
        assert "\n" not in lines[0]
