"""`obol show` and `obol explain` against a running web server."""

from __future__ import annotations

import asyncio
import json
import re
from typing import TYPE_CHECKING

import pytest
from aiohttp import web

from tests.unit.cli.obol import CommandOutput, obol
from tests.unit.web.support import FakeCluster, serving

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    RunObol = Callable[..., Coroutine[None, None, CommandOutput]]


@pytest.fixture
def run_obol(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> RunObol:
    monkeypatch.delenv("OBOL_ADVERTISED_URL", raising=False)
    monkeypatch.delenv("OBOL_HTTP_TOKEN", raising=False)
    monkeypatch.setenv("COLUMNS", "200")

    async def call(*arguments: str) -> CommandOutput:
        return await asyncio.to_thread(obol, capsys, *arguments)

    return call


def world_with_a_charge() -> FakeCluster:
    world = FakeCluster(partitions=2)
    world.price("11:00", "dedicated.h100.1x", "360")
    world.balance("11:30", "acme", "1000")
    world.deploy("12:00", "acme", "chat")
    world.healthy("12:00", "acme", "chat-r1")
    world.heartbeat("12:01", "acme", "chat-r1")
    world.ticks("12:01", "12:02")
    world.deploy("12:03", "other", "twin")
    world.deploy("12:03", "acme", "twin")
    return world


async def test_rows_as_text(run_obol: RunObol) -> None:
    async with serving(world_with_a_charge()) as (worker,):
        org = await run_obol("show", "org", "acme", "--url", worker.url)
        assert org.code == 0, org.err
        assert "burn per hour" in org.out
        assert "360" in org.out
        deployment = await run_obol("show", "deployment", "chat", "--org", "acme", "--url", worker.url)
        assert "dedicated.h100.1x" in deployment.out
        assert "chat-r1" in deployment.out
        replica = await run_obol("show", "replica", "chat-r1", "--org", "acme", "--url", worker.url)
        assert "chat-r1.w1" in replica.out
        # The last that was read is of 12:03; the last tick, 12:02, billed up to then.
        assert re.search(r"running +3 min *\n", replica.out)
        assert re.search(r"billed +2 min *\n", replica.out)
        assert "opened by          execlet.progress[" in replica.out
        window = await run_obol("show", "window", "chat-r1.w1", "--org", "acme", "--url", worker.url)
        assert "2026-11-29T12:02:00.000Z" in window.out


async def test_json_is_the_response(run_obol: RunObol) -> None:
    async with serving(world_with_a_charge()) as (worker,):
        output = await run_obol("show", "replica", "chat-r1", "--org", "acme", "--url", worker.url, "--json")
        assert json.loads(output.out) == (await worker.get("/orgs/acme/replicas/chat-r1")).json


async def test_the_org_is_found_by_the_id(run_obol: RunObol) -> None:
    async with serving(world_with_a_charge()) as (worker,):
        output = await run_obol("show", "replica", "chat-r1", "--url", worker.url, "--json")
        assert json.loads(output.out)["replica_id"] == "chat-r1"
        twice = await run_obol("show", "deployment", "twin", "--url", worker.url)
        assert (twice.code, twice.out) == (1, "")
        assert "2 orgs have the deployment twin: add --org, one of acme, other" in twice.err
        none = await run_obol("show", "instance", "chat-r1", "--url", worker.url)
        assert none.code == 1
        assert "no org has the instance 'chat-r1'" in none.err


async def test_explain(run_obol: RunObol) -> None:
    async with serving(world_with_a_charge()) as (worker,):
        output = await run_obol("explain", "chat-r1:2026-11-29T12:01:00.000Z", "--url", worker.url, "--json")
        assert json.loads(output.out)["charged"] is True
        text = await run_obol("explain", "chat-r1:2026-11-29T12:01:00.000Z", "--org", "acme", "--url", worker.url)
        assert "Charged" in text.out
        nonsense = await run_obol("explain", "chat", "--org", "acme", "--url", worker.url)
        assert nonsense.code == 1
        assert "a usage id is" in nonsense.err


async def test_an_unknown_row_is_one_line(run_obol: RunObol) -> None:
    async with serving(world_with_a_charge()) as (worker,):
        output = await run_obol("show", "replica", "unknown", "--org", "acme", "--url", worker.url)
        assert (output.code, output.out, output.err.count("\n")) == (1, "", 1)
        assert "unknown" in output.err


async def test_a_token_is_required_and_sent(run_obol: RunObol, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(world_with_a_charge(), token="s3cret") as (worker,):  # noqa: S106 - a test's
        output = await run_obol("show", "org", "acme", "--url", worker.url)
        assert output.code == 1
        assert "set OBOL_HTTP_TOKEN" in output.err
        assert "s3cret" not in output.err
        monkeypatch.setenv("OBOL_HTTP_TOKEN", "s3cret")
        assert (await run_obol("show", "org", "acme", "--url", worker.url)).code == 0


async def test_the_address_of_the_environment(run_obol: RunObol, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(world_with_a_charge()) as (worker,):
        monkeypatch.setenv("OBOL_ADVERTISED_URL", worker.url)
        assert (await run_obol("show", "org", "acme")).code == 0


async def test_no_worker_answers(run_obol: RunObol) -> None:
    output = await run_obol("show", "org", "acme", "--url", "http://127.0.0.1:1")
    assert output.code == 3
    assert "no worker answers at http://127.0.0.1:1" in output.err


@pytest.mark.parametrize("url", ["127.0.0.1:6066", "file:///etc/passwd", "http://"])
async def test_an_invalid_url(run_obol: RunObol, url: str) -> None:
    output = await run_obol("show", "org", "acme", "--url", url)
    assert output.code == 2
    assert "is not a worker's URL" in output.err


async def test_a_restore_is_awaited_up_to_the_timeout(run_obol: RunObol) -> None:
    world = world_with_a_charge()
    shard = world.shard_of("acme")
    shard.ready = False
    async with serving(world) as (worker,):
        output = await run_obol("show", "org", "acme", "--url", worker.url, "--timeout", "0")
        assert output.code == 3
        assert "restoring" in output.err
        waiting = asyncio.create_task(run_obol("show", "org", "acme", "--url", worker.url, "--timeout", "60"))
        await asyncio.sleep(0.1)
        shard.ready = True
        assert (await waiting).code == 0


async def serve(app: web.Application) -> tuple[web.AppRunner, str]:
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    return runner, f"http://127.0.0.1:{runner.addresses[0][1]}"


async def test_a_redirect_does_not_get_the_token(run_obol: RunObol, monkeypatch: pytest.MonkeyPatch) -> None:
    received: list[web.Request] = []

    async def elsewhere(request: web.Request) -> web.Response:
        received.append(request)
        return web.json_response({})

    async def redirect(_: web.Request) -> web.Response:
        raise web.HTTPFound(f"{target}/orgs/acme")

    app = web.Application()
    app.router.add_get("/orgs/acme", elsewhere)
    runner, target = await serve(app)
    other = web.Application()
    other.router.add_get("/orgs/acme", redirect)
    other_runner, url = await serve(other)
    try:
        monkeypatch.setenv("OBOL_HTTP_TOKEN", "s3cret")
        output = await run_obol("show", "org", "acme", "--url", url)
        assert output.code == 1
        assert received == []
    finally:
        await runner.cleanup()
        await other_runner.cleanup()


async def test_control_characters_are_escaped(run_obol: RunObol) -> None:
    world = FakeCluster(partitions=1)
    world.price("11:00", "instance.a100.2x", "1")
    world.price("11:00", "disk", "1")
    world.balance("11:00", "acme", "100000")
    world.rent("12:00", "acme", "box", offer_id="\x1b[2J\u202e[bold]<b>\r\n\0")
    world.report("12:01", "acme", "box", "launch_failed", message="\x9b31m [link=x]y[/link]")
    async with serving(world) as (worker,):
        for form in ([], ["--json"]):
            output = await run_obol("show", "instance", "box", "--org", "acme", "--url", worker.url, *form)
            assert output.code == 0
            assert "[link=x]y[/link]" in output.out
            assert not set("\x1b\u202e\r\0\x9b") & set(output.out)
