"""The read model on a real Redis: stopped, slowed and flushed under load, it changes no response but its own age."""

from __future__ import annotations

import asyncio
import json
import logging
import uuid
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

import pytest
from redis import asyncio as redis

from streams.metrics.census import Censuses
from streams.readmodel import ReadModel, store
from streams.web.pages import Pages
from streams.web.summary import Summaries
from tests.unit.web.support import FakeCluster, FakeWorker, Serving, serving
from tests.unit.web.test_forward import mutations
from topics.partitioner import partition_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

pytestmark = [pytest.mark.redis, pytest.mark.web]

DEADLINE_S = 20.0


class Valve:
    """Stands between a worker and Redis: lets through, keeps everything waiting, or is not there."""

    def __init__(self, host: str, port: int) -> None:
        self._behind = (host, port)
        self._open = asyncio.Event()
        self._open.set()
        self._streams: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self.port = 0

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """As if Redis had been stopped."""
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        for stream in self._streams:
            stream.transport.abort()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._streams.clear()
        self._tasks.clear()

    def hold(self) -> None:
        """As if Redis had become slow: nothing passes."""
        self._open.clear()

    def release(self) -> None:
        self._open.set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        behind_reader, behind_writer = await asyncio.open_connection(*self._behind)
        self._streams |= {writer, behind_writer}
        for source, sink in ((reader, behind_writer), (behind_reader, writer)):
            self._tasks.add(asyncio.create_task(self._pump(source, sink)))

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await source.read(65_536):
                await self._open.wait()
                sink.write(data)
                await sink.drain()
        sink.close()


class Setting:
    """A world, its one worker, and the read model between them and Redis."""

    def __init__(
        self, world: FakeCluster, valve: Valve, serving: Serving, model: ReadModel, behind: Any, prefix: str
    ) -> None:
        self.world = world
        self.valve = valve
        self.serving = serving
        self.model = model
        self._behind = behind
        self._prefix = prefix

    def changed(self, org: str, table: str, row_id: str) -> None:
        """A commit changed that row."""
        self.model.committed(self.world.shard_of(org), {table: [(f"{org}/{row_id}".encode(), b"")]})

    def healthy(self, org: str, number: int) -> None:
        """That org's first replica runs."""
        self.world.healthy(f"12:{number:02}", org, "chat-r1")
        self.changed(org, "replicas", "chat-r1")
        self.changed(org, "deployments", "chat")

    async def flush(self) -> None:
        """As FLUSHALL would, for this installation alone."""
        keys = [key async for key in self._behind.scan_iter(f"{self._prefix}*")]
        assert keys
        await self._behind.delete(*keys)

    async def state_of(self, start: str) -> list[tuple[str, str]]:
        """The states of all entities with this id, from the copy or from the owners."""
        got = await self.serving.get(f"/search?q={start}")
        assert got.status == 200
        return [(item["org_id"], item["state"]) for item in got.json["items"] if item["id"] == start]


@asynccontextmanager
async def setting(redis_url: str) -> AsyncIterator[Setting]:
    world = FakeCluster(partitions=3)
    world.price("11:00", "dedicated.h100.1x", "360")
    for number in range(6):
        world.deploy("12:00", f"org{number}", "chat")
        world.balance("12:00", f"org{number}", str(number))
    parts = urlsplit(redis_url)
    valve = Valve(parts.hostname or "127.0.0.1", parts.port or 6379)
    await valve.start()
    url = urlunsplit(parts._replace(netloc=f"127.0.0.1:{valve.port}"))
    namespace = uuid.uuid4().hex
    behind = redis.from_url(redis_url, decode_responses=True)
    model: ReadModel | None = None
    try:
        worker = FakeWorker(world, "")
        summaries = Summaries(worker, Censuses(worker))
        model = ReadModel(url, namespace, world.partitions, worker.shards, summaries.own)
        async with serving(world, read_model=model, summaries=summaries, render=Pages()) as (served,):
            worker.own_url = served.url
            model.start()
            yield Setting(world, valve, served, model, behind, f"{{{namespace}.obol}}:")
    finally:
        if model is not None:
            await model.stop()
        await behind.aclose()
        await valve.stop()


async def until(look: Callable[[], Awaitable[Any]], what: str) -> Any:
    loop = asyncio.get_running_loop()
    end = loop.time() + DEADLINE_S
    while not (found := await look()):
        assert loop.time() < end, f"not seen: {what}"
        await asyncio.sleep(0.05)
    return found


def from_copy(got: Any) -> bool:
    return bool(got.json.get("read_model"))


async def test_fleet_orgs_and_search_come_from_the_copy_and_say_how_old_it_is(redis_url: str) -> None:
    async with setting(redis_url) as here:
        exact = (await here.serving.get("/")).json
        got = await until(lambda: copied(here, "/"), "the fleet from Redis")
        assert {k: v for k, v in got.items() if k != "read_model"} == {
            k: v for k, v in exact.items() if k != "read_model"
        }
        assert 0 <= got["read_model"]["age_ms"] < 10_000
        orgs = await copied(here, "/orgs?limit=4")
        assert [(item["org_id"], item["balance"]) for item in orgs["items"]] == [(f"org{n}", str(n)) for n in range(4)]
        rest = await copied(here, f"/orgs?limit=4&cursor={orgs['next']}")
        assert [item["org_id"] for item in rest["items"]] == ["org4", "org5"]
        assert rest["next"] is None
        found = await copied(here, "/search?q=chat")
        assert {item["kind"] for item in found["items"]} == {"deployment", "replica"}
        assert len(found["items"]) == 12
        assert (await copied(here, "/search?q=org3"))["items"][0]["path"] == "/orgs/org3"


async def copied(here: Setting, path: str) -> Any:
    """The response, where it came from Redis."""
    got = await here.serving.get(path)
    return got.json if got.status == 200 and from_copy(got) else None


async def test_the_copy_follows_commits(redis_url: str) -> None:
    async with setting(redis_url) as here:
        await until(lambda: copied(here, "/"), "the copy")
        here.healthy("org1", 1)
        await until(lambda: is_running(here, "org1"), "the replica's state in the copy")
        fleet = await until(lambda: copied_running(here, 1), "the count in the copy")
        assert fleet["as_of"] == "2026-11-29T12:00:00.000Z"


async def is_running(here: Setting, org: str) -> bool:
    return (org, "running") in await here.state_of("chat-r1")


async def copied_running(here: Setting, count: int) -> Any:
    got = await copied(here, "/")
    return got if got is not None and got["running_replicas"] == count else None


@pytest.mark.parametrize("how", ["stopped", "slowed", "flushed"])
async def test_trouble_with_redis_under_load_costs_no_response_and_is_recovered_from(redis_url: str, how: str) -> None:
    async with setting(redis_url) as here:
        await until(lambda: copied(here, "/"), "the copy")
        if how == "stopped":
            await here.valve.stop()
        elif how == "slowed":
            here.valve.hold()
        for number in range(6):
            here.healthy(f"org{number}", number + 1)
            if how == "flushed" and number == 3:
                await here.flush()
            # The view of one org is exact at once; a view of all orgs is there, from the copy or not.
            exact = (await here.serving.get(f"/orgs/org{number}/replicas/chat-r1")).json
            assert exact["status"] == "running"
            assert (await here.serving.get("/")).status == 200
        if how != "flushed":
            assert not from_copy(await here.serving.get("/"))
            assert (await here.serving.get("/")).json["running_replicas"] == 6
            await until(lambda: has_no_age(here), "the read model to say that Redis can't be reached")
        if how == "stopped":
            await here.valve.start()
        here.valve.release()
        fleet = await until(lambda: copied_running(here, 6), "the copy, right again")
        assert fleet["complete"] is True
        states = await until(lambda: all_running(here), "every state in the copy, right again")
        assert len(states) == 6


async def has_no_age(here: Setting) -> bool:
    return here.model.age_s() is None


async def all_running(here: Setting) -> Any:
    got = await copied(here, "/search?q=chat-r1")
    items = got["items"] if got is not None else []
    return items if len(items) == 6 and all(item["state"] == "running" for item in items) else None


async def test_rows_that_leave_leave_the_copy(redis_url: str) -> None:
    async with setting(redis_url) as here:
        await until(lambda: copied(here, "/search?q=chat"), "the copy")
        here.world.shard_of("org2").store.restore_removed("replicas", "org2", "chat-r1")
        here.changed("org2", "replicas", "chat-r1")

        async def gone() -> bool:
            return "org2" not in [org for org, _ in await here.state_of("chat-r1")]

        await until(gone, "the row to leave")


async def test_another_owner_takes_the_copy_over(redis_url: str) -> None:
    """What the former owner still writes is refused, and what it had left is not found any more."""
    async with setting(redis_url) as here:
        await until(lambda: copied(here, "/"), "the copy")
        other = FakeCluster(partitions=3)
        other.price("11:00", "dedicated.h100.1x", "360")
        other.deploy("13:00", "newer", "fresh")
        worker = FakeWorker(other, "other")
        other.owners = dict.fromkeys(range(3), "other")
        here.world.owners = dict.fromkeys(range(3), "other")
        model = ReadModel(
            here.model.url,
            here.model.namespace,
            other.partitions,
            worker.shards,
            Summaries(worker, Censuses(worker)).own,
        )
        try:
            model.start()

            async def taken_over() -> Any:
                found = await here.model.search("fresh", 10)
                return found is not None and [item["org_id"] for item in found.items if item["id"] == "fresh"]

            assert await until(taken_over, "the new owner's rows") == ["newer"]
            left = await until(lambda: here.model.search("chat", 10), "a lookup that Redis responds to in time")
            assert left.items == []
        finally:
            await model.stop()


ORG = next(f"org{number}" for number in range(6) if partition_of(f"org{number}", 3) == 0)
"""One of partition 0."""

MALFORMED: list[tuple[str, str, dict[str, str | bytes]]] = [
    *(("parts", "part:0", {"summary": text}) for text in ("", "{", "[]", "null", "{}", b"\xff", "[" * 100_000)),
    *(("parts", "part:1", {"at": text}) for text in ("", "yesterday", "1e3", b"\xff")),
    *(("parts", "part:1", {"as_of": text}) for text in ("tomorrow", "2026-02-30T00:00:00.000Z", b"\xff")),
    *(("orgs", "org:0", {ORG: text}) for text in ("", "{}", "[1]", '{"org_id":"<b>"}', b"\xff")),
    *(("search", "states:0", {f"{ORG}\x1forg\x1f{ORG}": text}) for text in ("<script>", b"\xff", "x" * 100)),
]


@pytest.fixture
async def frozen(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[ReadModel, Any, Setting]]:
    """A copy that is not written any more, Redis itself, and a worker that reads the copy."""
    async with setting(redis_url) as here:
        await until(lambda: copied(here, "/"), "the copy")
        assert here.model._following is not None
        here.model._following.cancel()
        await asyncio.wait([here.model._following])
        monkeypatch.setattr(store, "STALE_MS", 3_600_000)
        monkeypatch.setattr(store, "_PAUSE_S", 0.0)
        behind = redis.from_url(redis_url)
        yield here.model, behind, here
        await behind.aclose()


async def look(model: ReadModel, lookup: str) -> Any:
    match lookup:
        case "parts":
            return await model.parts()
        case "orgs":
            return await model.orgs("", 10)
    return await model.search("org", 10)


async def test_a_malformed_copy_is_no_copy(
    frozen: tuple[ReadModel, Any, Setting], caplog: pytest.LogCaptureFixture
) -> None:
    model, behind, here = frozen
    counted = 0

    def count() -> None:
        nonlocal counted
        counted += 1

    model.on_malformed = count
    with caplog.at_level(logging.WARNING, "streams.readmodel.store"):
        for lookup, key, fields in MALFORMED:
            name = f"{model._prefix}{key}"
            before = await behind.hgetall(name)
            assert await look(model, lookup) is not None
            await behind.hset(name, mapping=fields)
            caplog.clear()
            counted = 0
            for _ in range(3):
                assert await look(model, lookup) is None, fields
            assert counted == 3, fields
            (line,) = [record.getMessage() for record in caplog.records]
            assert line.startswith("the read model in Redis is malformed")
            assert line.isascii()
            assert "\n" not in line
            for path in ("/", "/orgs", "/search?q=org"):
                assert (await here.serving.get(path)).status == 200, fields
            await behind.hset(name, mapping=before)


async def test_keys_of_another_type_and_members_of_another_form_are_no_copy(
    frozen: tuple[ReadModel, Any, Setting],
) -> None:
    model, behind, _ = frozen
    for key, member in (("ids:0", "org"), ("ids:0", "org\x1f<b>\x1forg"), ("orgs:0", "unknown")):
        lookup = "search" if key == "ids:0" else "orgs"
        await behind.zadd(f"{model._prefix}{key}", {member: 0})
        assert await look(model, lookup) is None, member
        await behind.zrem(f"{model._prefix}{key}", member)
        assert await look(model, lookup) is not None
    await behind.delete(f"{model._prefix}part:0")
    await behind.set(f"{model._prefix}part:0", "a string")
    assert await look(model, "parts") is None


async def test_any_part_of_a_summary_may_be_malformed(frozen: tuple[ReadModel, Any, Setting]) -> None:
    """Each part of it missing, or of another type: the copy is used only where a page can show it."""
    model, behind, here = frozen
    good = json.loads(await behind.hget(f"{model._prefix}part:0", "summary"))
    results = set()
    for summary in mutations(good):
        await behind.hset(f"{model._prefix}part:0", mapping={"summary": json.dumps(summary)})
        got = await here.serving.get("/", Accept="text/html")
        assert got.status == 200, (summary, got.text)
        results.add("From the read model" in got.text)
    assert results == {True, False}
