"""Coroutines that run the stand-ins for the command line."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from schemas.prices import Price
from schemas.times import rfc3339
from sim import driver, execlets, hosts, users
from sim.agenda import Actor
from sim.croesus import Croesus
from sim.dunning import Dunning
from sim.kafka import Installation, Link, link, publisher
from sim.records import MINUTE_MS, Record, price
from sim.stage import Output, Stage
from topics import catalogue
from topics.provision import provision

_CHUNK: Final = 10_000
_DAY_MS: Final = 24 * 60 * MINUTE_MS


@dataclass(frozen=True, slots=True)
class FleetPlan:
    """The size of a fleet in real time."""

    seed: int
    orgs: int
    deployments: int
    replicas: int
    instances: int
    over_minutes: int
    """Users create their deployments and instances within this time."""

    def actors(self, start_ms: int) -> Iterator[tuple[str, Actor]]:
        """Return the fleet's users from `start_ms` on, with names."""
        end_ms = start_ms + self.over_minutes * MINUTE_MS
        for plan in users.plan_deployments(
            self.seed, self.orgs, self.deployments, self.replicas, start_ms=start_ms, end_ms=end_ms
        ):
            yield f"deployment/{plan.org}/{plan.name}", users.deployment_commands(plan)
            yield f"requests/{plan.org}/{plan.name}", users.deployment_requests(plan, end_ms + _DAY_MS)
        for actions in users.plan_instances(self.seed, self.orgs, self.instances, start_ms=start_ms, end_ms=end_ms):
            yield f"actions/{actions.org}/{actions.name}", users.instance_commands(actions)


async def write_log(records: Iterable[Record], installation: Installation, console: Console) -> int:
    """Publish a log as fast as the broker accepts it. Returns the number of records."""
    await provision(installation)
    written = 0
    pending = iter(records)
    columns = (SpinnerColumn(), TextColumn("{task.completed:,} records, log time {task.fields[clock]}"))
    async with publisher(installation) as sender:
        with Progress(*columns, TimeElapsedColumn(), console=console) as progress:
            task = progress.add_task("", total=None, clock="")
            while chunk := list(islice(pending, _CHUNK)):
                await sender.send(chunk)
                written += len(chunk)
                progress.update(task, completed=written, clock=rfc3339(chunk[-1].timestamp_ms))
    return written


async def live_fleet(plan: FleetPlan, installation: Installation, console: Console, *, ticking: bool) -> None:
    """Run users, execlets and hosts in real time until cancelled. They execute Obol's orders.

    Orders are read from their beginning, so a restarted fleet continues with its replicas.
    """
    await provision(installation)
    start_ms = driver.now_ms()
    stage = Stage(plan.seed, plan.actors(start_ms), (), execlets.seeded(), hosts.seeded)
    async with link(installation, (catalogue.EXECLET_ORDERS, catalogue.HOST_ORDERS)) as kafka:
        with console.status("") as status:

            def after_second(now_ms: int) -> None:
                sent, received = kafka.publisher.sent, kafka.listener.received
                status.update(f"{rfc3339(now_ms)}: {sent:,} records sent, {received:,} orders received")

            last_tick_ms = driver.last_tick_ms(start_ms)
            await driver.live(stage, kafka, last_tick_ms, ticking=ticking, after_second=after_second)


class CroesusService:
    """Croesus in real time: it publishes prices and opening balances once, then changes each minute."""

    def __init__(self, orgs: int, opening: str, dunning: Callable[[Croesus], Dunning]) -> None:
        self.croesus = Croesus()
        self._orgs = users.org_names(orgs)
        self._opening = opening
        self._dunning = dunning(self.croesus)
        self._priced: set[str] = set()

    def receive(self, outputs: Iterable[Output]) -> None:
        """Receive usage events, and prices published by any client."""
        for record in outputs:
            if record.topic == catalogue.USAGE.name:
                self.croesus.receive(record.value)
            elif record.topic == catalogue.CREDITS.name:
                self.croesus.receive_credit(record.value)
            elif record.key is not None:
                amount = Price.model_validate_json(record.value).price if record.value else None
                self.croesus.prices.add(record.timestamp_ms, record.key, amount)
                self._priced.add(record.key)

    def open(self, now_ms: int) -> Iterator[Record]:
        """Yield the missing prices, and every org's opening balance less its usage."""
        for profile, amount in users.PRICES.items():
            if profile not in self._priced:
                yield price(now_ms, profile, amount)
        for org in self._orgs:
            yield self.croesus.pay_in(now_ms, org, self._opening)

    def each_minute(self, now_ms: int) -> Iterator[Record]:
        """Yield changed balances, and the suspensions, reinstatements and payments that are due."""
        yield from self.croesus.statements(now_ms)
        yield from self._dunning.due(now_ms)


async def run_croesus(service: CroesusService, installation: Installation, console: Console, *, once: bool) -> None:
    """Run Croesus until cancelled. With `once`, only book the existing usage."""
    await provision(installation)
    async with link(installation, (catalogue.PRICES, catalogue.USAGE, catalogue.CREDITS)) as kafka:
        with console.status("Reading prices and usage"):
            # Prices before usage: an event is priced when it is booked.
            service.receive(
                sorted(await kafka.listener.read_to_end(), key=lambda record: record.topic != catalogue.PRICES.name)
            )
        if not once:
            await kafka.publisher.send(service.open(driver.now_ms()))
            await _serve(service, kafka, console)


async def _serve(service: CroesusService, kafka: Link, console: Console) -> None:
    minute, shown = driver.now_ms() // MINUTE_MS, 0
    with console.status("") as status:
        while True:
            service.receive(await kafka.listener.poll(timeout_s=1.0))
            now = driver.now_ms()
            if now // MINUTE_MS > minute:
                minute = now // MINUTE_MS
                await kafka.publisher.send(service.each_minute(now))
            booked = service.croesus.verdicts["booked"]
            status.update(f"{rfc3339(now)}: {booked:,} usage events booked, {len(service.croesus.refusals):,} refused")
            for refusal in service.croesus.refusals[shown:]:
                console.print(refusal, style="red", markup=False)
            shown = len(service.croesus.refusals)
