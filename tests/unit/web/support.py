"""Workers without Kafka: the real rules change their rows, and the views read them."""

from __future__ import annotations

from collections import Counter
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from aiohttp import ClientSession, web
from pydantic import TypeAdapter

from schemas.accounts import Account
from schemas.clock import Tick
from schemas.commands import Command
from schemas.heartbeats import Heartbeat
from schemas.progress import Progress
from schemas.reports import Report
from schemas.times import parse_rfc3339
from streams.billing.prices import PriceRecord, Prices
from streams.billing.windows import Origin
from streams.engine.position import Position
from streams.limits import HOUR_MS
from streams.rules.accountant import Accountant
from streams.rules.context import Switches
from streams.rules.decision import Decision
from streams.rules.store import RowStore
from streams.web.site import Site
from topics.partitioner import partition_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

LIVE = Switches(billing_enabled=True)
DAY = "2026-11-29"
_ACCOUNT: TypeAdapter[Any] = TypeAdapter(Account)
_COMMAND: TypeAdapter[Any] = TypeAdapter(Command)
_REPORT: TypeAdapter[Any] = TypeAdapter(Report)


def at(clock: str) -> int:
    """`12:30`, `12:30:15` or `12:30:15.250` on the day of all tests."""
    time = clock if clock.count(":") == 2 else f"{clock}:00"
    return parse_rfc3339(f"{DAY}T{time if '.' in time else f'{time}.000'}Z")


def utc(clock: str) -> str:
    """The same time as views write it."""
    time = clock if clock.count(":") == 2 else f"{clock}:00"
    return f"{DAY}T{time if '.' in time else f'{time}.000'}Z"


@dataclass(eq=False)
class FakeShard:
    """One partition and its rows."""

    partition: int
    store: RowStore = field(default_factory=lambda: RowStore(168 * HOUR_MS))
    ready: bool = True
    blocked: str | None = None
    as_of: int | None = None
    counters: Counter[tuple[str, str]] = field(default_factory=Counter)
    lag_records: int | None = 0
    lag_ms: int | None = 0
    restored_rows: int = 0
    restore_total: int | None = 0
    position: Position = field(default_factory=Position)


class FakeCluster:
    """Partitions shared by several workers. `owners`: the URL of each partition's owner."""

    def __init__(self, partitions: int = 4, switches: Switches = LIVE, currency: str = "JPY") -> None:
        self.partitions = partitions
        self.switches = switches
        self.currency = currency
        self.prices = Prices()
        self.prices_as_of: int | None = None
        self.all = [FakeShard(number) for number in range(partitions)]
        self.offsets: Counter[str] = Counter()
        self.owners: dict[int, str] = {}

    def price(self, clock: str, profile: str, price: str | None) -> None:
        self.prices.add(profile, PriceRecord(at(clock), self.offsets["croesus.prices"], price))
        self.offsets["croesus.prices"] += 1
        self.prices_as_of = max(self.prices_as_of or 0, at(clock))

    def shard_of(self, org: str) -> FakeShard:
        return self.all[partition_of(org, self.partitions)]

    def tick(self, clock: str) -> None:
        for shard in self.all:
            self._apply(shard, clock, "obol.clock", Tick(type="tick"))

    def ticks(self, first: str, last: str) -> None:
        """Apply a tick at the start of each minute, both included."""
        minute = at(first)
        while minute <= at(last):
            self.tick(f"{minute // 3_600_000 % 24:02}:{minute // 60_000 % 60:02}")
            minute += 60_000

    def command(self, clock: str, org: str, **fields: Any) -> None:
        command_id = f"c{self.offsets['user.commands']}"
        self._of_org(
            clock, "user.commands", org, _COMMAND.validate_python({"command_id": command_id, "org_id": org, **fields})
        )

    def deploy(self, clock: str, org: str, deployment: str, **fields: Any) -> None:
        given = {"model": "llama", "gpu_type": "h100", "gpu_count": 1} | fields
        self.command(clock, org, type="create_deployment", deployment_id=deployment, **given)

    def rent(self, clock: str, org: str, instance: str, **fields: Any) -> None:
        given: dict[str, Any] = {
            "offer_id": "offer-1",
            "gpu_type": "a100",
            "gpu_count": 2,
            "disk_gb": 100,
            "template": {"mode": "ssh", "image": "ubuntu:24.04"},
        }
        self.command(clock, org, type="deploy_instance", instance_id=instance, **(given | fields))

    def balance(self, clock: str, org: str, balance: str) -> None:
        event_id = f"b{self.offsets['croesus.accounts']}"
        fields = {"event_id": event_id, "org_id": org, "type": "balance_updated", "balance": balance}
        self._of_org(clock, "croesus.accounts", org, _ACCOUNT.validate_python(fields))

    def progress(self, clock: str, org: str, replica: str, status: str, message: str = "") -> None:
        event_id = f"p{self.offsets['execlet.progress']}"
        event = Progress(event_id=event_id, org_id=org, replica_id=replica, status=status, message=message)  # type: ignore[arg-type]
        self._of_org(clock, "execlet.progress", org, event)

    def healthy(self, clock: str, org: str, replica: str) -> None:
        self.progress(clock, org, replica, "RUNNING", "healthy")

    def heartbeat(self, clock: str, org: str, replica: str) -> None:
        self._of_org(clock, "execlet.heartbeats", org, Heartbeat(org_id=org, replica_id=replica))

    def report(self, clock: str, org: str, instance: str, report: str, **fields: Any) -> None:
        event_id = f"h{self.offsets['host.reports']}"
        given = {"event_id": event_id, "org_id": org, "instance_id": instance, "report": report, **fields}
        self._of_org(clock, "host.reports", org, _REPORT.validate_python(given))

    def apply(self, clock: str, topic: str, org: str, event: Any) -> None:
        """Apply a record of an org."""
        self._of_org(clock, topic, org, event)

    def _of_org(self, clock: str, topic: str, org: str, event: Any) -> None:
        self._apply(self.shard_of(org), clock, topic, event)

    def _apply(self, shard: FakeShard, clock: str, topic: str, event: Any) -> None:
        origin = Origin(topic, self.offsets[topic], at(clock))
        self.offsets[topic] += 1
        dead = Accountant(shard.store, self.prices, self.switches).apply(event, origin, Decision())
        assert dead is None, dead
        shard.as_of = max(shard.as_of or 0, at(clock))


class FakeWorker:
    """A worker with the partitions that its URL owns."""

    def __init__(self, world: FakeCluster, own_url: str) -> None:
        self.world = world
        self.own_url = own_url
        self.is_assigned = True
        self.partitions = world.partitions
        self.currency = world.currency
        self.prices_refused = 0
        self.disagreements: list[str] = []
        self.open_transactions: list[str] = []

    @property
    def switches(self) -> Switches:
        return self.world.switches

    @property
    def prices(self) -> Prices:
        return self.world.prices

    @property
    def prices_as_of(self) -> int | None:
        return self.world.prices_as_of

    def shards(self) -> Sequence[FakeShard]:
        return [shard for shard in self.world.all if self.world.owners.get(shard.partition) == self.own_url]

    def owner_url(self, partition: int) -> str | None:
        return self.world.owners.get(partition)


@dataclass
class Got:
    """A response with its body."""

    status: int
    headers: Any
    json: Any
    text: str


class Serving:
    """A site that listens on 127.0.0.1."""

    def __init__(self, url: str, site: Site, session: ClientSession, runner: web.AppRunner) -> None:
        self.url = url
        self._runner = runner
        self.site = site
        self._session = session

    @property
    def connections(self) -> int:
        """The number of connected clients."""
        assert self._runner.server is not None
        return len(self._runner.server.connections)

    async def get(self, path: str, method: str = "GET", **headers: str) -> Got:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        async with self._session.request(method, self.url + path, headers=named) as response:
            text = await response.text()
            return Got(
                response.status,
                response.headers,
                await response.json() if "json" in response.content_type else None,
                text,
            )


@asynccontextmanager
async def serving(
    world: FakeCluster, count: int = 1, application: dict[str, Any] | None = None, **options: Any
) -> AsyncIterator[list[Serving]]:
    """Run `count` workers that share the partitions of `world` round-robin. `application`: aiohttp's options."""
    runners: list[web.AppRunner] = []
    served: list[Serving] = []
    session = ClientSession()
    try:
        for _ in range(count):
            app = web.Application(**(application or {}))
            runner = web.AppRunner(app)
            worker = FakeWorker(world, "")
            # The port is known only once it listens, and the site must be mounted before: so a socket first.
            socket = _listen()
            worker.own_url = f"http://127.0.0.1:{socket.getsockname()[1]}"
            site = Site(worker, **options)
            site.mount(app)
            await runner.setup()
            runners.append(runner)
            await web.SockSite(runner, socket).start()
            served.append(Serving(worker.own_url, site, session, runner))
        for shard in world.all:
            world.owners.setdefault(shard.partition, served[shard.partition % count].url)
        yield served
    finally:
        await session.close()
        for runner in runners:
            await runner.cleanup()


def _listen() -> Any:
    import socket  # noqa: PLC0415 - a helper's own need

    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    return listening
