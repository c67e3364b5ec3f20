"""`obol show` and `obol explain` against a site that really serves."""

from __future__ import annotations

import asyncio
import json
import re
from typing import TYPE_CHECKING

import pytest
from aiohttp import web

from tests.unit.cli.obol import Said, obol
from tests.unit.web.support import World, serving

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    Say = Callable[..., Coroutine[None, None, Said]]


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Say:
    monkeypatch.delenv("OBOL_ADVERTISED_URL", raising=False)
    monkeypatch.delenv("OBOL_HTTP_TOKEN", raising=False)
    monkeypatch.setenv("COLUMNS", "200")

    async def call(*arguments: str) -> Said:
        return await asyncio.to_thread(obol, capsys, *arguments)

    return call


def world_with_a_charge() -> World:
    world = World(partitions=2)
    world.price("11:00", "dedicated.h100.1x", "360")
    world.balance("11:30", "acme", "1000")
    world.deploy("12:00", "acme", "chat")
    world.healthy("12:00", "acme", "chat-r1")
    world.beat("12:01", "acme", "chat-r1")
    world.ticks("12:01", "12:02")
    world.deploy("12:03", "other", "twin")
    world.deploy("12:03", "acme", "twin")
    return world


async def test_rows_for_reading(say: Say) -> None:
    async with serving(world_with_a_charge()) as (worker,):
        org = await say("show", "org", "acme", "--url", worker.url)
        assert org.code == 0, org.err
        assert "burn per hour" in org.out
        assert "360" in org.out
        deployment = await say("show", "deployment", "chat", "--org", "acme", "--url", worker.url)
        assert "dedicated.h100.1x" in deployment.out
        assert "chat-r1" in deployment.out
        replica = await say("show", "replica", "chat-r1", "--org", "acme", "--url", worker.url)
        assert "chat-r1.w1" in replica.out
        # The last that was read is of 12:03; the last tick, 12:02, billed up to then.
        assert re.search(r"running +3 min *\n", replica.out)
        assert re.search(r"billed +2 min *\n", replica.out)
        assert "opened by          execlet.progress[" in replica.out
        window = await say("show", "window", "chat-r1.w1", "--org", "acme", "--url", worker.url)
        assert "2026-11-29T12:02:00.000Z" in window.out


async def test_json_is_the_answer_itself(say: Say) -> None:
    async with serving(world_with_a_charge()) as (worker,):
        said = await say("show", "replica", "chat-r1", "--org", "acme", "--url", worker.url, "--json")
        assert json.loads(said.out) == (await worker.get("/orgs/acme/replicas/chat-r1")).json


async def test_the_org_is_found_by_the_id(say: Say) -> None:
    async with serving(world_with_a_charge()) as (worker,):
        said = await say("show", "replica", "chat-r1", "--url", worker.url, "--json")
        assert json.loads(said.out)["replica_id"] == "chat-r1"
        twice = await say("show", "deployment", "twin", "--url", worker.url)
        assert (twice.code, twice.out) == (1, "")
        assert "in 2 orgs: add --org, one of acme, other" in twice.err
        none = await say("show", "instance", "chat-r1", "--url", worker.url)
        assert none.code == 1
        assert "instance 'chat-r1' is in no org" in none.err


async def test_explain(say: Say) -> None:
    async with serving(world_with_a_charge()) as (worker,):
        said = await say("explain", "chat-r1:2026-11-29T12:01:00.000Z", "--url", worker.url, "--json")
        assert json.loads(said.out)["charged"] is True
        for_reading = await say("explain", "chat-r1:2026-11-29T12:01:00.000Z", "--org", "acme", "--url", worker.url)
        assert "Charged" in for_reading.out
        nonsense = await say("explain", "chat", "--org", "acme", "--url", worker.url)
        assert nonsense.code == 1
        assert "a usage id is" in nonsense.err


async def test_what_is_not_there_says_so_in_a_line(say: Say) -> None:
    async with serving(world_with_a_charge()) as (worker,):
        said = await say("show", "replica", "nobody", "--org", "acme", "--url", worker.url)
        assert (said.code, said.out, said.err.count("\n")) == (1, "", 1)
        assert "nobody" in said.err


async def test_a_token_is_needed_and_given(say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(world_with_a_charge(), token="s3cret") as (worker,):  # noqa: S106 - a test's
        said = await say("show", "org", "acme", "--url", worker.url)
        assert said.code == 1
        assert "set OBOL_HTTP_TOKEN" in said.err
        assert "s3cret" not in said.err
        monkeypatch.setenv("OBOL_HTTP_TOKEN", "s3cret")
        assert (await say("show", "org", "acme", "--url", worker.url)).code == 0


async def test_the_address_of_the_environment(say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(world_with_a_charge()) as (worker,):
        monkeypatch.setenv("OBOL_ADVERTISED_URL", worker.url)
        assert (await say("show", "org", "acme")).code == 0


async def test_nobody_answers(say: Say) -> None:
    said = await say("show", "org", "acme", "--url", "http://127.0.0.1:1")
    assert said.code == 3
    assert "no worker answers at http://127.0.0.1:1" in said.err


@pytest.mark.parametrize("url", ["127.0.0.1:6066", "file:///etc/passwd", "http://"])
async def test_no_address(say: Say, url: str) -> None:
    said = await say("show", "org", "acme", "--url", url)
    assert said.code == 2
    assert "is no worker's address" in said.err


async def test_restoring_is_waited_for_and_no_longer_than_asked(say: Say) -> None:
    world = world_with_a_charge()
    shard = world.shard_of("acme")
    shard.ready = False
    async with serving(world) as (worker,):
        said = await say("show", "org", "acme", "--url", worker.url, "--timeout", "0")
        assert said.code == 3
        assert "restoring" in said.err
        waiting = asyncio.create_task(say("show", "org", "acme", "--url", worker.url, "--timeout", "60"))
        await asyncio.sleep(0.1)
        shard.ready = True
        assert (await waiting).code == 0


async def serve(app: web.Application) -> tuple[web.AppRunner, str]:
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    return runner, f"http://127.0.0.1:{runner.addresses[0][1]}"


async def test_a_redirect_does_not_get_the_token(say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[web.Request] = []

    async def elsewhere(request: web.Request) -> web.Response:
        asked.append(request)
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
        said = await say("show", "org", "acme", "--url", url)
        assert said.code == 1
        assert asked == []
    finally:
        await runner.cleanup()
        await other_runner.cleanup()


async def test_hostile_words_are_shown_and_not_obeyed(say: Say) -> None:
    world = World(partitions=1)
    world.price("11:00", "instance.a100.2x", "1")
    world.price("11:00", "disk", "1")
    world.balance("11:00", "acme", "100000")
    world.rent("12:00", "acme", "box", offer_id="\x1b[2J\u202e[bold]<b>\r\n\0")
    world.report("12:01", "acme", "box", "launch_failed", message="\x9b31m [link=x]y[/link]")
    async with serving(world) as (worker,):
        for form in ([], ["--json"]):
            said = await say("show", "instance", "box", "--org", "acme", "--url", worker.url, *form)
            assert said.code == 0
            assert "[link=x]y[/link]" in said.out
            assert not set("\x1b\u202e\r\0\x9b") & set(said.out)
