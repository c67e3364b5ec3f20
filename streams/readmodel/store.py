"""A copy of all partitions in Redis: a page over all of them, a search without an org, cost one lookup.

It follows the tables, off the commit path, and is built again from them whenever it may be wrong: after an assignment,
after Redis was down, slow, or flushed. Nothing that is billed, and no view of one org, depends on it. A
copy that is malformed, whichever program wrote it, is not used.

Keys, under `{<OBOL_NAMESPACE>.obol}:`, one set for each partition n: `owner:n` (which worker may write), `part:n` (the
summary, its `as_of`, the time of its write; absent while the copy is built), `ids:n` and `states:n` (what can be found,
and its state), `orgs:n` and `org:n` (orgs sorted by id, and each as a line).
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

from pydantic import TypeAdapter
from redis import asyncio as redis
from redis.exceptions import RedisError, ResponseError

from schemas.base import Json
from streams.engine.tasks import cancel_and_wait
from streams.metrics.source import ShardView
from streams.readmodel.items import FoundItem, OrgItem, ReadyPartition, Time, found_item, org_item, problem_of
from streams.rules.rows import Deployment, Instance, Org, Replica
from streams.rules.store import OrgRows

Op = tuple[str, str, str]

FLUSH_S: Final = 0.5
"""How often changes are written, and the summaries with them."""

STALE_MS: Final = 10_000
"""An older copy is not used: the partition owners are asked."""

MAX_PENDING: Final = 200_000
"""Changed rows that may wait for Redis, in each partition; beyond, the copy is built again once Redis responds."""

_WRITE_TIMEOUT_S: Final = 1.0
_READ_TIMEOUT_S: Final = 0.5
_PAUSE_S: Final = 2.0
_MAX_PAUSE_S: Final = 15.0
_OPS_AT_ONCE: Final = 1_000
_WINDOW_ID: Final = re.compile(r"(?P<owner>.+?)(\.gpu|\.disk)?\.w[0-9]+")
_SEPARATOR: Final = "\x1f"
_KINDS: Final = {Deployment.TABLE: "deployment", Replica.TABLE: "replica", Instance.TABLE: "instance"}
_PARTS: Final = ("owner", "part", "ids", "states", "orgs", "org")

log = logging.getLogger(__name__)

_SUMMARY: Final = TypeAdapter(ReadyPartition)
_ORG: Final = TypeAdapter(OrgItem)
_FOUND: Final = TypeAdapter(FoundItem)
_TIME: Final = TypeAdapter(Time)
# For each partition: as_of, written at, summary, names, values.
_REPLY: Final = TypeAdapter(tuple[int, list[tuple[str | None, int, str | None, list[str], list[str]]]])

_CLAIM: Final = """
redis.call('SET', KEYS[1], ARGV[1])
redis.call('DEL', KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6])
return 1
"""

# ARGV: token, summary ('' for none), as_of, then triples: 'put' member state · 'drop' member '' · 'org' id line.
_WRITE: Final = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
for at = 4, #ARGV, 3 do
  local what, name, value = ARGV[at], ARGV[at + 1], ARGV[at + 2]
  if what == 'put' then
    redis.call('ZADD', KEYS[3], 0, name)
    redis.call('HSET', KEYS[4], name, value)
  elseif what == 'drop' then
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

# KEYS: for each partition its part, then its ordered set, then its hash. ARGV: kind of lookup, from, to, limit.
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


class Lookup(NamedTuple):
    """What a lookup found: the items, their `as_of` (null: nothing was read yet), and how old the copy is."""

    items: list[Json]
    as_of: str | None
    age_ms: int


@dataclass(slots=True)
class _Copy:
    """One partition's copy: the shard that it is made from, whether it is complete, and what has changed since."""

    shard: ShardView
    complete: bool = False
    changed: set[tuple[str, bytes]] = field(default_factory=set)
    states: dict[str, str] = field(default_factory=dict)


class ReadModel:
    """Writes this worker's partitions, and reads all.

    `shards` returns this worker's partitions, `summaries` a summary of each of them that is ready. `on_malformed` is
    called at each lookup that finds something else than a copy.
    """

    def __init__(
        self,
        url: str,
        namespace: str | None,
        partitions: int,
        shards: Callable[[], Sequence[ShardView]],
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
        self._copies: dict[int, _Copy] = {}
        self._failures = 0
        self._written_s: float | None = None
        self.on_malformed: Callable[[], object] = lambda: None
        self._is_malformed = False
        self._paused_until_s = 0.0
        self._following: asyncio.Task[None] | None = None

    def age_s(self) -> float | None:
        """Return how long ago this worker last wrote all changes; None while it can't reach Redis, and before that."""
        if self._written_s is None or self._failures:
            return None
        return time.monotonic() - self._written_s

    # Writing

    def committed(self, shard: ShardView, rows: Mapping[str, Iterable[tuple[bytes, bytes | None]]]) -> None:
        """Record which rows were committed. Costs the commit path no I/O and bounded memory."""
        copy = self._copies.get(shard.partition)
        if copy is None or copy.shard is not shard:
            return
        for table in (Org.TABLE, *_KINDS):
            copy.changed.update((table, key) for key, _ in rows.get(table, ()))
        if len(copy.changed) > MAX_PENDING:
            copy.complete = False
            copy.changed.clear()

    def start(self) -> None:
        """Start to follow the tables."""
        self._following = asyncio.create_task(self._run_on())

    async def _run_on(self) -> None:
        """Keep Redis up to date with the tables until cancelled. Errors are logged, and the write is tried again."""
        while True:
            try:
                await self._write_all()
            except Exception as error:  # noqa: BLE001 - no error of a copy may stop the worker
                self._failures += 1
                if self._failures == 1:
                    log.warning("the read model in Redis can't be written (%r); views ask the owners instead", error)
                for copy in self._copies.values():
                    copy.complete = False
                    copy.changed.clear()
            else:
                if self._failures:
                    log.info("the read model in Redis is written again")
                self._failures = 0
                self._written_s = time.monotonic()
            await asyncio.sleep(min(FLUSH_S * 2 ** min(self._failures, 5), _MAX_PAUSE_S))

    async def stop(self) -> None:
        """Stop following the tables, and close the connections."""
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
                copy = self._copies[partition] = _Copy(shard)
            summary = summaries.get(partition)
            if not copy.complete:
                await self._build(copy)
            if not await self._follow(copy, summary if summary and summary["state"] == "ready" else None):
                # Flushed, or claimed by another worker, which may be the owner by now: the next write shows which.
                copy.complete = False

    async def _build(self, copy: _Copy) -> None:
        """Copy all rows of a partition. Readers see none of them before the summary is written."""
        copy.changed.clear()
        copy.states.clear()
        await self._run(self._writer, _CLAIM, self._keys(copy.shard.partition), [self._token])
        copy.complete = True
        for org_id in list(copy.shard.store.orgs):
            org = copy.shard.store.orgs[org_id]
            ops = [*_org_ops(org)]
            for table in _KINDS:
                for row_id in list(org.table(table)):
                    ops += self._ops(copy, table, org_id, row_id)
            for some in _in_pieces(ops):
                await self._write(copy.shard.partition, some, None)

    async def _follow(self, copy: _Copy, summary: Json | None) -> bool:
        """Write what has changed, the summary last. Return False where another worker has the partition's keys."""
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
            if (org := copy.shard.store.orgs.get(org_id)) is not None:
                ops += _org_ops(org)
        for some in _in_pieces(ops):
            if not await self._write(copy.shard.partition, some, None):
                return False
        return await self._write(copy.shard.partition, (), summary)

    def _ops(self, copy: _Copy, table: str, org_id: str, row_id: str) -> Iterator[Op]:
        """Return what to write for one row: nothing where its state is the same, as after most heartbeats."""
        name = _SEPARATOR.join((row_id, _KINDS[table], org_id))
        org = copy.shard.store.orgs.get(org_id)
        row = org.table(table).get(row_id) if org is not None else None
        if row is None:
            if copy.states.pop(name, None) is not None:
                yield "drop", name, ""
            return
        state = row.state if isinstance(row, Instance) else row.status
        if copy.states.get(name) != state:
            copy.states[name] = state.value
            yield "put", name, state.value

    async def _write(self, partition: int, ops: Iterable[Op], summary: Json | None) -> bool:
        text, as_of = ("", "") if summary is None else (json.dumps(summary), summary["as_of"] or "")
        arguments = [self._token, text, as_of, *(word for op in ops for word in op)]
        return bool(await self._run(self._writer, _WRITE, self._keys(partition), arguments))

    # Reading

    async def parts(self) -> Lookup | None:
        """Return the summary of every partition; None: ask the partition owners."""

        def read(number: int, part: _Part) -> Iterator[Json]:
            summary = _SUMMARY.validate_json(part.summary or "")
            if summary["partition"] != number:
                raise ValueError(f"the summary of partition {number} is of partition {summary['partition']}")
            yield dict(summary)

        return await self._look(("ids", "states"), ["parts", "", "", "0"], read)

    async def orgs(self, after: str, limit: int) -> Lookup | None:
        """Return orgs whose id comes after `after`, sorted by id; None: ask the partition owners."""

        def read(_: int, part: _Part) -> Iterator[Json]:
            yield from (dict(_ORG.validate_json(line)) for line in part.values)

        found = await self._look(("orgs", "org"), ["orgs", f"({after}" if after else "-", "+", str(limit)], read)
        if found is None:
            return None
        return found._replace(items=sorted(found.items, key=lambda item: item["org_id"])[:limit])

    async def search(self, start: str, limit: int) -> Lookup | None:
        """Return entities and orgs whose id is `start`, or begins with it; None: ask the partition owners.

        Windows are not copied: one is found by its owner's id, which its own begins with.
        """

        def read(_: int, part: _Part) -> Iterator[Json]:
            for name, state in zip(part.names, part.values, strict=True):
                row_id, kind, org_id = name.split(_SEPARATOR)
                yield dict(_FOUND.validate_python(found_item(kind, org_id, row_id, state or None)))

        found = await self._look(("ids", "states"), ["search", f"[{start}", f"[{start}\x7f", str(limit)], read)
        if found is None:
            return None
        items = found.items
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
        return found._replace(items=items[:limit])

    async def _look(
        self, kinds: tuple[str, str], arguments: list[str], read: Callable[[int, "_Part"], Iterable[Json]]
    ) -> Lookup | None:
        """Look something up in all partitions. `read` returns the items of each. None: ask the partition owners.

        After a failure Redis is not asked for a while, so that it slows down one page at most.
        """
        now_s = time.monotonic()
        if now_s < self._paused_until_s:
            return None
        keys = [
            f"{self._prefix}{kind}:{partition}" for partition in range(self._partitions) for kind in ("part", *kinds)
        ]
        try:
            reply = await self._run(self._reader, _READ, keys, arguments)
            if not reply:
                return None
            now_ms, raw = _REPLY.validate_python((reply[0], reply[1:]))
            parts = [_Part(*one) for one in raw]
            items = [item for number, part in enumerate(parts) for item in read(number, part)]
            times = [_TIME.validate_python(part.as_of) for part in parts if part.as_of]
        except (RedisError, OSError, TimeoutError, ValueError) as error:
            self._paused_until_s = now_s + _PAUSE_S
            if isinstance(error, ValueError | ResponseError):
                self._reject(error)
            return None
        self._is_malformed = False
        age_ms = max(0, now_ms - min(part.written_at_ms for part in parts))
        return None if age_ms > STALE_MS else Lookup(items, min(times) if times else None, age_ms)

    def _reject(self, error: Exception) -> None:
        """Count a copy that can't be read, and log the first of several in a row."""
        self.on_malformed()
        if not self._is_malformed:
            self._is_malformed = True
            log.warning("the read model in Redis is malformed (%s); views ask the owners instead", problem_of(error))

    def _keys(self, partition: int) -> list[str]:
        return [f"{self._prefix}{kind}:{partition}" for kind in _PARTS]

    @staticmethod
    async def _run(client: Any, script: str, keys: list[str], arguments: list[str]) -> Any:
        return await client.eval(script, len(keys), *keys, *arguments)


class _Part(NamedTuple):
    """What Redis has of one partition."""

    as_of: str | None
    written_at_ms: int
    summary: str | None
    names: list[str]
    values: list[str]


def _org_ops(org: OrgRows) -> Iterator[Op]:
    org_id = org.org.org_id
    yield "org", org_id, json.dumps(org_item(org))
    yield "put", _SEPARATOR.join((org_id, "org", org_id)), "suspended" if org.org.suspended else ""


def _in_pieces(ops: Sequence[Op]) -> Iterator[Sequence[Op]]:
    return (ops[start : start + _OPS_AT_ONCE] for start in range(0, len(ops), _OPS_AT_ONCE))


def _client(url: str, timeout_s: float) -> Any:
    return redis.from_url(
        url, socket_timeout=timeout_s, socket_connect_timeout=timeout_s, decode_responses=True, retry=None
    )
