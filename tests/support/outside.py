"""A client of Obol that knows the wire contract and none of the code."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.partitioner import murmur2

from tests.support.contract import INBOUND, OUTBOUND
from tests.support.http_get import Response, get

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
_DEADLINE_S = 60.0
_GET_DEADLINE_S = 20.0
_POLL_S = 0.02


class ReadRecord(NamedTuple):
    """A record that was read."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: dict[str, bytes]

    @property
    def body(self) -> Any:
        """The value as JSON."""
        return json.loads(self.value or b"null")


class Stored(NamedTuple):
    """The partition and the offset of a stored record."""

    partition: int
    offset: int


def rfc3339(at_ms: int) -> str:
    """Return a time in the contract's format: `2026-11-29T12:00:00.000Z`."""
    seconds, ms = divmod(at_ms, 1000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{ms:03d}Z"


class Outside:
    """One namespace on a cluster: sends records, and reads outputs and web views.

    `now`: the timestamp of the records that are sent; at first a whole hour some days ago; only `advance` changes it.
    """

    def __init__(self, bootstrap: str, namespace: str, partitions: int) -> None:
        self.bootstrap = bootstrap
        self.namespace = namespace
        self.partitions = partitions
        self.url = ""
        self.now = int(time.time() * 1000) // HOUR_MS * HOUR_MS - 72 * HOUR_MS
        self.seen: list[ReadRecord] = []
        self._number = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._run(self._start())
        return self

    def __exit__(self, *_: object) -> None:
        self._run(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(120)

    async def _start(self) -> None:
        common: dict[str, Any] = {"bootstrap_servers": self.bootstrap}
        self._producer = AIOKafkaProducer(**common)
        self._admin = AIOKafkaAdminClient(**common)
        self._reader = AIOKafkaConsumer(**common, isolation_level="read_committed", enable_auto_commit=False)
        self._ends = AIOKafkaConsumer(
            **common,
            isolation_level="read_uncommitted",
            enable_auto_commit=False,
            retry_backoff_ms=10,  # the client waits this long for each unknown topic
        )
        for client in (self._producer, self._admin, self._reader, self._ends):
            await client.start()

    async def _stop(self) -> None:
        for client in (self._producer, self._reader, self._ends):
            await client.stop()
        await self._admin.close()

    def topic(self, name: str) -> str:
        """Return a topic's full name."""
        return f"{self.namespace}.{name}"

    def partition_of(self, org_id: str) -> int:
        """Return the partition of an org."""
        return int(murmur2(org_id.encode()) & 0x7FFFFFFF) % self.partitions

    def new_id(self, stem: str) -> str:
        """Return an id that was not used before."""
        self._number += 1
        return f"{stem}-{self._number}"

    def advance(self, ms: int) -> int:
        """Add to `now`, and return it."""
        self.now += ms
        return self.now

    def send(
        self,
        topic: str,
        body: Any,
        *,
        partition: int | None = None,
        key: bytes | None = None,
        at: int | None = None,
        headers: list[tuple[str, bytes]] | None = None,
    ) -> Stored:
        """Write one record and wait until it is stored; bytes and None are sent unchanged, other bodies as JSON."""
        org_id: Any = body.get("org_id") if isinstance(body, dict) else None
        if partition is None:
            partition = 0 if topic == "croesus.prices" else self.partition_of(org_id)
        if key is None and isinstance(org_id, str):
            key = org_id.encode("utf-8", "surrogatepass")
        value = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        at = self.now if at is None else at

        async def go() -> Any:
            return await self._producer.send_and_wait(
                self.topic(topic), value, key=key, partition=partition, timestamp_ms=at, headers=headers
            )

        stored = self._run(go())
        return Stored(stored.partition, stored.offset)

    def send_together(self, records: list[tuple[str, dict[str, Any]]], *, commit: bool) -> None:
        """Write records in one transaction, at `now`, and commit or abort it."""

        async def go() -> None:
            producer = AIOKafkaProducer(
                bootstrap_servers=self.bootstrap, transactional_id=f"{self.namespace}-{self.new_id('transaction')}"
            )
            await producer.start()
            try:
                await producer.begin_transaction()
                for topic, body in records:
                    org_id = str(body.get("org_id", ""))
                    await producer.send_and_wait(
                        self.topic(topic),
                        json.dumps(body).encode(),
                        key=str(body.get("profile", org_id)).encode(),
                        partition=0 if topic == "croesus.prices" else self.partition_of(org_id),
                        timestamp_ms=self.now,
                    )
                await (producer.commit_transaction() if commit else producer.abort_transaction())
            finally:
                await producer.stop()

        self._run(go())

    def send_untimed(self, topic: str, value: bytes, partition: int, at: int) -> None:
        """Write a record with a timestamp out of range, as old clients can."""

        async def go() -> None:
            producer = AIOKafkaProducer(bootstrap_servers=self.bootstrap)
            await producer.start()
            try:
                batch = producer.create_batch()
                batch.append(key=b"untimed", value=value, timestamp=at)
                batch.close()
                await (await producer.send_batch(batch, self.topic(topic), partition=partition))
            finally:
                await producer.stop()

        self._run(go())

    def price(self, profile: str, price: str | None, **changes: Any) -> None:
        """Set or remove a price."""
        body = None if price is None else {"profile": profile, "price": price, "currency": "JPY", **changes}
        self.send("croesus.prices", body, key=profile.encode())

    def balance(self, org_id: str, balance: str, **more: Any) -> None:
        """Send an org's balance."""
        self.account(org_id, "balance_updated", balance=balance, **more)

    def account(self, org_id: str, kind: str, **more: Any) -> Stored:
        """Send an event of an org's account."""
        return self.send("croesus.accounts", {"event_id": self.new_id("acc"), "org_id": org_id, "type": kind, **more})

    def progress(self, org_id: str, replica_id: str, status: str, message: str | None = None) -> Stored:
        """Send a callback about a replica."""
        body = {"event_id": self.new_id("prog"), "org_id": org_id, "replica_id": replica_id, "status": status}
        return self.send("execlet.progress", body if message is None else {**body, "message": message})

    def report(self, org_id: str, instance_id: str, report: str, **more: Any) -> Stored:
        """Send a host's report."""
        body = {"event_id": self.new_id("rep"), "org_id": org_id, "instance_id": instance_id, "report": report}
        return self.send("host.reports", {**body, **more})

    def heartbeat(self, org_id: str, replica_id: str) -> Stored:
        """Send a heartbeat."""
        return self.send("execlet.heartbeats", {"org_id": org_id, "replica_id": replica_id})

    def command(self, org_id: str, kind: str, **fields: Any) -> str:
        """Send a command, and return its id."""
        command_id = str(fields.pop("command_id", None) or self.new_id("cmd"))
        self.send("user.commands", {"command_id": command_id, "org_id": org_id, "type": kind, **fields})
        return command_id

    def tick(self) -> None:
        """Send a tick at `now` to every partition."""
        for partition in range(self.partitions):
            self.send("obol.clock", {"type": "tick"}, partition=partition)

    def heartbeat_and_tick(self, minutes: int, *replicas: tuple[str, str]) -> None:
        """For each of `minutes`, send a heartbeat of each replica and a tick."""
        for _ in range(minutes):
            self.advance(MINUTE_MS)
            for org_id, replica_id in replicas:
                self.heartbeat(org_id, replica_id)
            self.tick()

    def wait_until_applied(self, deadline_s: float = _DEADLINE_S) -> None:
        """Wait until all records sent are applied and committed, then read the new outputs."""
        self._run(asyncio.wait_for(self._wait_until_applied(), deadline_s))

    async def _wait_until_applied(self) -> None:
        inputs = [TopicPartition(self.topic(topic), p) for topic in INBOUND for p in range(self.partitions)]
        while True:
            ends = await self._ends.end_offsets(inputs)
            done = await self._admin.list_consumer_group_offsets(self.topic("obol"))
            if all(ends[tp] == (done[tp].offset if tp in done else 0) or not ends[tp] for tp in inputs):
                break
            await asyncio.sleep(_POLL_S)
        outputs = [TopicPartition(self.topic(topic), p) for topic in OUTBOUND for p in range(self.partitions)]
        if self._reader.assignment() != set(outputs):
            self._reader.assign(outputs)
            await self._reader.seek_to_beginning(*outputs)
        ends = await self._ends.end_offsets(outputs)
        while any([await self._reader.position(tp) < ends[tp] for tp in outputs]):
            for records in (await self._reader.getmany(timeout_ms=100)).values():
                self.seen += [
                    ReadRecord(
                        r.topic.removeprefix(f"{self.namespace}."),
                        r.partition,
                        r.offset,
                        r.timestamp,
                        r.key,
                        r.value,
                        dict(r.headers),
                    )
                    for r in records
                ]

    def stored(self, topic: str) -> list[ReadRecord]:
        """Return all committed records of a topic, which may be an inbound one."""
        return list(self._run(self._stored(topic)))

    async def _stored(self, topic: str) -> list[ReadRecord]:
        name = self.topic(topic)
        count = 1 if topic == "croesus.prices" else self.partitions
        tps = [TopicPartition(name, p) for p in range(count)]
        reader = AIOKafkaConsumer(
            bootstrap_servers=self.bootstrap, isolation_level="read_committed", enable_auto_commit=False
        )
        await reader.start()
        found: list[ReadRecord] = []
        try:
            reader.assign(tps)
            await reader.seek_to_beginning(*tps)
            ends = await self._ends.end_offsets(tps)
            while any([await reader.position(tp) < ends[tp] for tp in tps]):
                for records in (await reader.getmany(timeout_ms=100)).values():
                    found += [
                        ReadRecord(topic, r.partition, r.offset, r.timestamp, r.key, r.value, dict(r.headers))
                        for r in records
                    ]
        finally:
            await reader.stop()
        return found

    def out(self, topic: str, org_id: str | None = None, /, **fields: Any) -> list[ReadRecord]:
        """Return the messages of an outbound topic with these fields, in order."""
        wanted = fields if org_id is None else {"org_id": org_id, **fields}
        return [
            record
            for record in self.seen
            if record.topic == topic and all(record.body.get(name) == value for name, value in wanted.items())
        ]

    def result(self, command_id: str) -> dict[str, Any]:
        """Return the one result of a command."""
        (record,) = self.out("command.results", command_id=command_id)
        return dict(record.body)

    def ask(self, org_id: str, kind: str, **fields: Any) -> dict[str, Any]:
        """Send a command, and return its result."""
        command_id = self.command(org_id, kind, **fields)
        self.wait_until_applied()
        return self.result(command_id)

    def dead_letters(self, topic: str, stored: Stored) -> list[ReadRecord]:
        """Return the dead letters of one record."""
        return self.out("dead.letters", topic=topic, partition=stored.partition, offset=stored.offset)

    def get(self, path: str, **headers: str) -> Response:
        """Request a view."""
        return get(self.url + path, _GET_DEADLINE_S, **headers)

    def ready(self) -> bool:
        """Return whether `/ready` responds with 200; False while the worker does not listen yet."""
        try:
            return self.get("/ready").status == 200
        except OSError:
            return False

    def until(self, condition: Callable[[], Any], what: str, deadline_s: float = _DEADLINE_S) -> Any:
        """Return the value of `condition` once it is true."""
        end_s = time.monotonic() + deadline_s
        while not (found := condition()):
            if time.monotonic() > end_s:
                message = f"not seen within {deadline_s:g} s: {what}"
                raise AssertionError(message)
            time.sleep(_POLL_S)
        return found
