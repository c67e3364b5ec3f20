"""A copy of all partitions in Redis: a page over all of them, a search without an org, cost one look-up.

It follows the tables, off the commit path, and is built anew from them whenever it may be wrong: at an assignment,
after Redis was down, slow, or flushed. Nothing that is billed or answered for an org depends on it.

Keys, under `{<OBOL_NAMESPACE>.obol}:`, one set for each partition n: `owner:n` (who may write), `part:n` (the summary,
up to when it is right, when it was written; absent while the copy is built), `ids:n` and `states:n` (what can be
found, and its state), `orgs:n` and `org:n` (orgs in order, and each in a line).
"""

import asyncio
import json
import logging
import re
import time
import uuid
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from redis import asyncio as redis
from redis.exceptions import RedisError

from streams.engine.tasks import cancel_and_wait
from streams.metrics.source import Shard
from streams.rules.rows import Deployment, Instance, Org, Replica
from streams.rules.store import OrgRows

Json = dict[str, Any]
Op = tuple[str, str, str]

FLUSH_S: Final = 0.5
"""How often what has changed is written, and the summaries with it."""

STALE_MS: Final = 10_000
"""An older copy is not answered from: the owners are asked."""

MAX_PENDING: Final = 200_000
"""Changed rows that may wait for Redis, in each partition; beyond, the partition is built anew once Redis is back."""

_WRITE_TIMEOUT_S: Final = 1.0
_READ_TIMEOUT_S: Final = 0.5
_REST_S: Final = 2.0
_LONGEST_REST_S: Final = 15.0
_OPS_AT_ONCE: Final = 1_000
_WINDOW_ID: Final = re.compile(r"(?P<owner>.+?)(\.gpu|\.disk)?\.w[0-9]+")
_SEPARATOR: Final = "\x1f"
_KINDS: Final = {Deployment.TABLE: "deployment", Replica.TABLE: "replica", Instance.TABLE: "instance"}
_PARTS: Final = ("owner", "part", "ids", "states", "orgs", "org")

_CLAIM: Final = """
redis.call('SET', KEYS[1], ARGV[1])
redis.call('DEL', KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6])
return 1
"""

# ARGV: token, summary ('' for none), as_of, then triples: 'put' member state · 'cut' member '' · 'org' id line.
_WRITE: Final = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
for at = 4, #ARGV, 3 do
  local what, name, value = ARGV[at], ARGV[at + 1], ARGV[at + 2]
  if what == 'put' then
    redis.call('ZADD', KEYS[3], 0, name)
    redis.call('HSET', KEYS[4], name, value)
  elseif what == 'cut' then
    redis.call('ZREM', KEYS[3], name)
    redis.call('HDEL', KEYS[4], name)
  else
    redis.call('ZADD', KEYS[5], 0, name)
    redis.call('HSET', KEYS[6], name, value)
  end
end
if ARGV[2] ~= '' then
  local now = redis.call('TIME')
  redis.call('HSET', KEYS[2], 'summary', ARGV[2], 'as_of', ARGV[3], 'at', now[1] * 1000 + math.floor(now[2] / 1000))
end
return 1
"""

# KEYS: for each partition its part, then its ordered set, then its hash. ARGV: kind of look-up, from, to, limit.
_READ: Final = """
local now = redis.call('TIME')
local found = {now[1] * 1000 + math.floor(now[2] / 1000)}
for at = 1, #KEYS, 3 do
  local part = redis.call('HMGET', KEYS[at], 'as_of', 'at', 'summary')
  if not part[2] then return false end
  local names, values = {}, {}
  if ARGV[1] ~= 'parts' then
    part[3] = ''
    names = redis.call('ZRANGEBYLEX', KEYS[at + 1], ARGV[2], ARGV[3], 'LIMIT', 0, ARGV[4])
    if #names > 0 then values = redis.call('HMGET', KEYS[at + 2], unpack(names)) end
  end
  found[#found + 1] = {part[1], part[2], part[3], names, values}
end
return found
"""

log = logging.getLogger(__name__)


class Looked(NamedTuple):
    """What a look-up found: the items, up to when they are right (null: nothing was read yet), and how old they are."""

    items: list[Json]
    as_of: str | None
    age_ms: int


@dataclass(slots=True)
class _Copied:
    """What is known of one partition's copy: the shard it was made from, and what has changed since."""

    shard: Shard
    whole: bool = False
    changed: set[tuple[str, bytes]] = field(default_factory=set)
    states: dict[str, str] = field(default_factory=dict)


class ReadModel:
    """Writes this worker's partitions, and reads all.

    `shards` gives this worker's partitions, `summaries` a summary of each of them that is ready.
    """

    def __init__(
        self,
        url: str,
        namespace: str | None,
        partitions: int,
        shards: Callable[[], Sequence[Shard]],
        summaries: Callable[[], Awaitable[list[Json]]],
    ) -> None:
        self.url = url
        self.namespace = namespace
        self._prefix = f"{{{namespace + '.' if namespace else ''}obol}}:"
        self._partitions = partitions
        self._shards = shards
        self._summaries = summaries
        self._token = uuid.uuid4().hex
        self._writer = _client(url, _WRITE_TIMEOUT_S)
        self._reader = _client(url, _READ_TIMEOUT_S)
        self._copies: dict[int, _Copied] = {}
        self._failures = 0
        self._written_s: float | None = None
        self._rests_until_s = 0.0
        self._following: asyncio.Task[None] | None = None

    def age_s(self) -> float | None:
        """How long ago this worker last wrote all it had to; None while Redis can't be reached, or before that."""
        if self._written_s is None or self._failures:
            return None
        return time.monotonic() - self._written_s

    # Writing

    def committed(self, shard: Shard, rows: Mapping[str, Iterable[tuple[bytes, bytes | None]]]) -> None:
        """Rows were committed: note which. Costs the commit path no I/O and bounded memory."""
        copy = self._copies.get(shard.partition)
        if copy is None or copy.shard is not shard:
            return
        for table in (Org.TABLE, *_KINDS):
            copy.changed.update((table, key) for key, _ in rows.get(table, ()))
        if len(copy.changed) > MAX_PENDING:
            copy.whole = False
            copy.changed.clear()

    def start(self) -> None:
        """Begin to follow the tables."""
        self._following = asyncio.create_task(self._run_on())

    async def _run_on(self) -> None:
        """Keep Redis up with the tables until cancelled. Whatever goes wrong is told, and tried again."""
        while True:
            try:
                await self._write_all()
            except Exception as error:  # noqa: BLE001 - nothing that is wrong with a copy may stop the work
                self._failures += 1
                if self._failures == 1:
                    log.warning("the read model in Redis can't be written (%r); pages ask the workers instead", error)
                for copy in self._copies.values():
                    copy.whole = False
                    copy.changed.clear()
            else:
                if self._failures:
                    log.info("the read model in Redis is written again")
                self._failures = 0
                self._written_s = time.monotonic()
            await asyncio.sleep(min(FLUSH_S * 2 ** min(self._failures, 5), _LONGEST_REST_S))

    async def stop(self) -> None:
        """Follow no more, and let go of the connections."""
        if self._following is not None:
            await cancel_and_wait([self._following])
        await self._writer.aclose()
        await self._reader.aclose()

    async def _write_all(self) -> None:
        ready = {shard.partition: shard for shard in self._shards() if shard.ready}
        for gone in self._copies.keys() - ready.keys():
            del self._copies[gone]
        summaries = {summary["partition"]: summary for summary in await self._summaries()}
        for partition, shard in ready.items():
            copy = self._copies.get(partition)
            if copy is None or copy.shard is not shard:
                copy = self._copies[partition] = _Copied(shard)
            summary = summaries.get(partition)
            if not copy.whole:
                await self._build(copy)
            if not await self._follow(copy, summary if summary and summary["state"] == "ready" else None):
                # Flushed, or taken by another worker that may be the owner by now: the next turn tells.
                copy.whole = False

    async def _build(self, copy: _Copied) -> None:
        """Copy all rows of a partition. Readers see none of it before the summary follows."""
        copy.changed.clear()
        copy.states.clear()
        await self._run(self._writer, _CLAIM, self._keys(copy.shard.partition), [self._token])
        copy.whole = True
        for org_id in list(copy.shard.store.orgs):
            rows = copy.shard.store.orgs[org_id]
            ops = [*_org_ops(rows)]
            for table in _KINDS:
                for row_id in list(rows.table(table)):
                    ops += self._ops(copy, table, org_id, row_id)
            for some in _in_pieces(ops):
                await self._write(copy.shard.partition, some, None)

    async def _follow(self, copy: _Copied, summary: Json | None) -> bool:
        """Write what has changed, the summary last. False: the partition's keys are not ours."""
        changed, copy.changed = copy.changed, set()
        ops: list[Op] = []
        orgs: set[str] = set()
        for table, key in changed:
            org_id, _, row_id = key.decode().partition("/")
            if table in _KINDS:
                ops += self._ops(copy, table, org_id, row_id)
            if table != Replica.TABLE:
                orgs.add(org_id)
        for org_id in orgs:
            if (rows := copy.shard.store.orgs.get(org_id)) is not None:
                ops += _org_ops(rows)
        for some in _in_pieces(ops):
            if not await self._write(copy.shard.partition, some, None):
                return False
        return await self._write(copy.shard.partition, (), summary)

    def _ops(self, copy: _Copied, table: str, org_id: str, row_id: str) -> Iterator[Op]:
        """What the copy needs for one row: nothing where its state is as it was, as after most heartbeats."""
        name = _SEPARATOR.join((row_id, _KINDS[table], org_id))
        rows = copy.shard.store.orgs.get(org_id)
        row = rows.table(table).get(row_id) if rows is not None else None
        if row is None:
            if copy.states.pop(name, None) is not None:
                yield "cut", name, ""
            return
        state = row.state if isinstance(row, Instance) else row.status
        if copy.states.get(name) != state:
            copy.states[name] = state.value
            yield "put", name, state.value

    async def _write(self, partition: int, ops: Iterable[Op], summary: Json | None) -> bool:
        told, as_of = ("", "") if summary is None else (json.dumps(summary), summary["as_of"] or "")
        arguments = [self._token, told, as_of, *(word for op in ops for word in op)]
        return bool(await self._run(self._writer, _WRITE, self._keys(partition), arguments))

    # Reading

    async def parts(self) -> Looked | None:
        """The summary of every partition; None: ask the owners."""
        found = await self._look(("ids", "states"), ["parts", "", "", "0"])
        if found is None:
            return None
        return Looked([json.loads(one[2]) for one in found.parts], found.as_of, found.age_ms)

    async def orgs(self, after: str, limit: int) -> Looked | None:
        """Orgs whose id comes after `after`, in order of their ids; None: ask the owners."""
        found = await self._look(("orgs", "org"), ["orgs", f"({after}" if after else "-", "+", str(limit)])
        if found is None:
            return None
        items = [json.loads(line) for one in found.parts for line in one[4]]
        return Looked(sorted(items, key=lambda item: item["org_id"])[:limit], found.as_of, found.age_ms)

    async def search(self, start: str, limit: int) -> Looked | None:
        """Entities and orgs whose id is `start`, or begins with it; None: ask the owners.

        Windows are not copied: one is found by its owner's id, which its own begins with.
        """
        found = await self._look(("ids", "states"), ["search", f"[{start}", f"[{start}\x7f", str(limit)])
        if found is None:
            return None
        items = _items(found)
        if not items and (window := _WINDOW_ID.fullmatch(start)) is not None:
            owners = await self.search(window["owner"], limit)
            if owners is None:
                return None
            items = [
                found_item("window", owner["org_id"], start, None)
                for owner in owners.items
                if owner["id"] == window["owner"]
            ]
        items.sort(key=lambda item: (item["id"] != start, item["id"], item["org_id"]))
        return Looked(items[:limit], found.as_of, found.age_ms)

    async def _look(self, kinds: tuple[str, str], arguments: list[str]) -> "_Read | None":
        """One look-up over all partitions. After a failure Redis has a rest, so that it slows down one page at most."""
        now_s = time.monotonic()
        if now_s < self._rests_until_s:
            return None
        keys = [
            f"{self._prefix}{kind}:{partition}" for partition in range(self._partitions) for kind in ("part", *kinds)
        ]
        try:
            found = await self._run(self._reader, _READ, keys, arguments)
        except (RedisError, OSError, TimeoutError):
            self._rests_until_s = now_s + _REST_S
            return None
        if not found:
            return None
        now_ms, *parts = found
        age_ms = max(0, now_ms - min(int(part[1]) for part in parts))
        times = [part[0] for part in parts if part[0]]
        return None if age_ms > STALE_MS else _Read(parts, min(times) if times else None, age_ms)

    def _keys(self, partition: int) -> list[str]:
        return [f"{self._prefix}{kind}:{partition}" for kind in _PARTS]

    @staticmethod
    async def _run(client: Any, script: str, keys: list[str], arguments: list[str]) -> Any:
        return await client.eval(script, len(keys), *keys, *arguments)


class _Read(NamedTuple):
    """What Redis told of all partitions: (as_of, written at, summary, names, values) of each."""

    parts: list[Any]
    as_of: str | None
    age_ms: int


def org_item(rows: OrgRows) -> Json:
    """An org in a list."""
    return {
        "org_id": rows.org.org_id,
        "balance": rows.org.balance,
        "suspended": rows.org.suspended,
        "running_replicas": sum(row.current_replicas for row in rows.deployments.values()),
        "instances": len(rows.live_instances),
    }


def found_item(kind: str, org_id: str, entity_id: str, state: str | None) -> Json:
    """Something found, and where its page is."""
    path = f"/orgs/{org_id}" if kind == "org" else f"/orgs/{org_id}/{kind}s/{entity_id}"
    return {"kind": kind, "org_id": org_id, "id": entity_id, "state": state, "path": path}


def _org_ops(rows: OrgRows) -> Iterator[Op]:
    org_id = rows.org.org_id
    yield "org", org_id, json.dumps(org_item(rows))
    yield "put", _SEPARATOR.join((org_id, "org", org_id)), "suspended" if rows.org.suspended else ""


def _in_pieces(ops: Sequence[Op]) -> Iterator[Sequence[Op]]:
    return (ops[start : start + _OPS_AT_ONCE] for start in range(0, len(ops), _OPS_AT_ONCE))


def _items(found: _Read) -> list[Json]:
    return [
        found_item(kind, org_id, row_id, state or None)
        for part in found.parts
        for name, state in zip(part[3], part[4], strict=True)
        for row_id, kind, org_id in [name.split(_SEPARATOR)]
    ]


def _client(url: str, timeout_s: float) -> Any:
    return redis.from_url(
        url, socket_timeout=timeout_s, socket_connect_timeout=timeout_s, decode_responses=True, retry=None
    )
