"""Obol from outside: a client that knows the wire contract and nothing of the code behind it."""

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
from tests.support.http_get import Answer, get

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
_DEADLINE_S = 60.0
_GET_DEADLINE_S = 20.0
_POLL_S = 0.02


class Seen(NamedTuple):
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
        """Its value as JSON."""
        return json.loads(self.value or b"null")


class Stored(NamedTuple):
    """Where a record went."""

    partition: int
    offset: int


def rfc3339(at_ms: int) -> str:
    """`2026-11-29T12:00:00.000Z`, as the contract writes times out."""
    seconds, ms = divmod(at_ms, 1000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{ms:03d}Z"


class Outside:
    """One namespace on a cluster, seen by producers, consumers and readers of its web views.

    `now` is the time of the records that are sent: recent past, whole minutes at first, moved only by `wait`.
    """

    def __init__(self, bootstrap: str, namespace: str, partitions: int) -> None:
        self.bootstrap = bootstrap
        self.namespace = namespace
        self.partitions = partitions
        self.url = ""
        self.now = int(time.time() * 1000) // HOUR_MS * HOUR_MS - 72 * HOUR_MS
        self.seen: list[Seen] = []
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
            retry_backoff_ms=10,  # it rests so long for each topic that it does not know yet
        )
        for client in (self._producer, self._admin, self._reader, self._ends):
            await client.start()

    async def _stop(self) -> None:
        for client in (self._producer, self._reader, self._ends):
            await client.stop()
        await self._admin.close()

    def topic(self, name: str) -> str:
        """The name that the cluster knows a topic by."""
        return f"{self.namespace}.{name}"

    def place(self, org_id: str) -> int:
        """The partition of an org."""
        return int(murmur2(org_id.encode()) & 0x7FFFFFFF) % self.partitions

    def fresh(self, stem: str) -> str:
        """An id that was not there before."""
        self._number += 1
        return f"{stem}-{self._number}"

    def wait(self, ms: int) -> int:
        """Let time pass; the new `now`."""
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
        """Write one record and wait until it is stored; bytes and None go as they are, the rest as JSON."""
        org_id: Any = body.get("org_id") if isinstance(body, dict) else None
        if partition is None:
            partition = 0 if topic == "croesus.prices" else self.place(org_id)
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
                bootstrap_servers=self.bootstrap, transactional_id=f"{self.namespace}-{self.fresh('transaction')}"
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
                        partition=0 if topic == "croesus.prices" else self.place(org_id),
                        timestamp_ms=self.now,
                    )
                await (producer.commit_transaction() if commit else producer.abort_transaction())
            finally:
                await producer.stop()

        self._run(go())

    def send_untimed(self, topic: str, value: bytes, partition: int, at: int) -> None:
        """Write a record with a timestamp that is no time, as clients of old can."""

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
        """Tell an org's balance."""
        self.account(org_id, "balance_updated", balance=balance, **more)

    def account(self, org_id: str, kind: str, **more: Any) -> Stored:
        """Tell something of an org's account."""
        return self.send("croesus.accounts", {"event_id": self.fresh("acc"), "org_id": org_id, "type": kind, **more})

    def progress(self, org_id: str, replica_id: str, status: str, message: str | None = None) -> Stored:
        """A replica's callback."""
        body = {"event_id": self.fresh("prog"), "org_id": org_id, "replica_id": replica_id, "status": status}
        return self.send("execlet.progress", body if message is None else {**body, "message": message})

    def report(self, org_id: str, instance_id: str, report: str, **more: Any) -> Stored:
        """A host's report."""
        body = {"event_id": self.fresh("rep"), "org_id": org_id, "instance_id": instance_id, "report": report}
        return self.send("host.reports", {**body, **more})

    def beat(self, org_id: str, replica_id: str) -> Stored:
        """A heartbeat."""
        return self.send("execlet.heartbeats", {"org_id": org_id, "replica_id": replica_id})

    def command(self, org_id: str, kind: str, **fields: Any) -> str:
        """Ask for something; the command's id."""
        command_id = str(fields.pop("command_id", None) or self.fresh("cmd"))
        self.send("user.commands", {"command_id": command_id, "org_id": org_id, "type": kind, **fields})
        return command_id

    def tick(self) -> None:
        """Tell every partition that it is `now`."""
        for partition in range(self.partitions):
            self.send("obol.clock", {"type": "tick"}, partition=partition)

    def beat_and_tick(self, minutes: int, *replicas: tuple[str, str]) -> None:
        """Minute after minute, a heartbeat of each replica and a tick."""
        for _ in range(minutes):
            self.wait(MINUTE_MS)
            for org_id, replica_id in replicas:
                self.beat(org_id, replica_id)
            self.tick()

    def settle(self, deadline_s: float = _DEADLINE_S) -> None:
        """Wait until all that was sent is applied and committed, then read all that came out."""
        self._run(asyncio.wait_for(self._settle(), deadline_s))

    async def _settle(self) -> None:
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
                    Seen(
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

    def stored(self, topic: str) -> list[Seen]:
        """All that stands in one topic, inbound ones too."""
        return list(self._run(self._stored(topic)))

    async def _stored(self, topic: str) -> list[Seen]:
        name = self.topic(topic)
        count = 1 if topic == "croesus.prices" else self.partitions
        tps = [TopicPartition(name, p) for p in range(count)]
        reader = AIOKafkaConsumer(
            bootstrap_servers=self.bootstrap, isolation_level="read_committed", enable_auto_commit=False
        )
        await reader.start()
        found: list[Seen] = []
        try:
            reader.assign(tps)
            await reader.seek_to_beginning(*tps)
            ends = await self._ends.end_offsets(tps)
            while any([await reader.position(tp) < ends[tp] for tp in tps]):
                for records in (await reader.getmany(timeout_ms=100)).values():
                    found += [
                        Seen(topic, r.partition, r.offset, r.timestamp, r.key, r.value, dict(r.headers))
                        for r in records
                    ]
        finally:
            await reader.stop()
        return found

    def out(self, topic: str, org_id: str | None = None, /, **fields: Any) -> list[Seen]:
        """What has come out of a topic, in order, with these fields."""
        wanted = fields if org_id is None else {"org_id": org_id, **fields}
        return [
            record
            for record in self.seen
            if record.topic == topic and all(record.body.get(name) == value for name, value in wanted.items())
        ]

    def result(self, command_id: str) -> dict[str, Any]:
        """The one result of a command."""
        (record,) = self.out("command.results", command_id=command_id)
        return dict(record.body)

    def ask(self, org_id: str, kind: str, **fields: Any) -> dict[str, Any]:
        """Ask for something and wait for its result."""
        command_id = self.command(org_id, kind, **fields)
        self.settle()
        return self.result(command_id)

    def letters(self, topic: str, stored: Stored) -> list[Seen]:
        """The dead letters of one record."""
        return self.out("dead.letters", topic=topic, partition=stored.partition, offset=stored.offset)

    def get(self, path: str, **headers: str) -> Answer:
        """A view."""
        return get(self.url + path, _GET_DEADLINE_S, **headers)

    def ready(self) -> bool:
        """Whether `/ready` says so; a worker that does not listen yet is not."""
        try:
            return self.get("/ready").status == 200
        except OSError:
            return False

    def until(self, look: Callable[[], Any], what: str, deadline_s: float = _DEADLINE_S) -> Any:
        """What `look` gives once it is true."""
        end_s = time.monotonic() + deadline_s
        while not (found := look()):
            if time.monotonic() > end_s:
                message = f"not seen within {deadline_s:g} s: {what}"
                raise AssertionError(message)
            time.sleep(_POLL_S)
        return found
