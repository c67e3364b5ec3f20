"""The stand-ins on their own, each a coroutine for the command line."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from schemas.prices import Price
from schemas.times import rfc3339
from sim import driver, hosts, lives, users
from sim.agenda import Life
from sim.croesus import Croesus
from sim.dunning import Dunning
from sim.kafka import Installation, Link, link, publisher
from sim.records import MINUTE_MS, Record, price
from sim.stage import Heard, Stage
from topics import catalogue
from topics.provision import provision

_CHUNK: Final = 10_000
_DAY_MS: Final = 24 * 60 * MINUTE_MS


@dataclass(frozen=True, slots=True)
class FleetPlan:
    """The size of a fleet that lives on its own."""

    seed: int
    orgs: int
    deployments: int
    replicas: int
    instances: int
    over_minutes: int
    """Users come with their deployments and instances within this time."""

    def lives(self, start_ms: int) -> Iterator[tuple[str, Life]]:
        """Tell what its users do from `start_ms` on."""
        end_ms = start_ms + self.over_minutes * MINUTE_MS
        for plan in users.plan_deployments(
            self.seed, self.orgs, self.deployments, self.replicas, start_ms=start_ms, end_ms=end_ms
        ):
            yield f"deployment/{plan.org}/{plan.name}", users.commands_of(plan)
            yield f"requests/{plan.org}/{plan.name}", users.requests_of(plan, end_ms + _DAY_MS)
        for moves in users.plan_instances(self.seed, self.orgs, self.instances, start_ms=start_ms, end_ms=end_ms):
            yield f"moves/{moves.org}/{moves.name}", users.moves_of(moves)


async def write_log(records: Iterable[Record], installation: Installation, console: Console) -> int:
    """Publish a log as it is, as fast as the broker takes it; returns the number of records."""
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
    """Let users, execlets and hosts live with the wall clock, in answer to Obol's orders, until cancelled.

    Orders are read from their beginning, so a fleet that is started again takes up the replicas it had.
    """
    await provision(installation)
    start_ms = driver.now_ms()
    stage = Stage(plan.seed, plan.lives(start_ms), (), lives.seeded(), hosts.seeded)
    async with link(installation, (catalogue.EXECLET_ORDERS, catalogue.HOST_ORDERS)) as wires:
        with console.status("") as status:

            def after_second(now_ms: int) -> None:
                sent, taken = wires.publisher.sent, wires.listener.taken
                status.update(f"{rfc3339(now_ms)}: {sent:,} records sent, {taken:,} orders taken")

            last_tick_ms = driver.last_tick_ms(start_ms)
            await driver.live(stage, wires, last_tick_ms, ticking=ticking, after_second=after_second)


class Desk:
    """Croesus with the wall clock: publishes prices and openings once, then each minute what has changed."""

    def __init__(self, orgs: int, opening: str, dunning: Callable[[Croesus], Dunning]) -> None:
        self.croesus = Croesus()
        self._orgs = users.org_names(orgs)
        self._opening = opening
        self._dunning = dunning(self.croesus)
        self._priced: set[str] = set()

    def hear(self, heard: Iterable[Heard]) -> None:
        """Take prices as they were published, by whomever, and usage."""
        for record in heard:
            if record.topic == catalogue.USAGE.name:
                self.croesus.receive(record.value)
            elif record.key is not None:
                amount = Price.model_validate_json(record.value).price if record.value else None
                self.croesus.prices.add(record.timestamp_ms, record.key, amount)
                self._priced.add(record.key)

    def open(self, now_ms: int) -> Iterator[Record]:
        """Publish prices where there were none, and every org's opening balance less what it has used."""
        for profile, amount in users.PRICES.items():
            if profile not in self._priced:
                yield price(now_ms, profile, amount)
        for org in self._orgs:
            yield self.croesus.pay_in(now_ms, org, self._opening)

    def each_minute(self, now_ms: int) -> Iterator[Record]:
        """State balances, and suspend, reinstate and top up what is due."""
        yield from self.croesus.statements(now_ms)
        yield from self._dunning.judge(now_ms)


async def keep_books(desk: Desk, installation: Installation, console: Console, *, once: bool) -> None:
    """Be Croesus until cancelled; with `once`, only book what usage there is and publish nothing."""
    await provision(installation)
    async with link(installation, (catalogue.PRICES, catalogue.USAGE)) as wires:
        with console.status("Reading prices and usage"):
            # Prices before usage, whatever their times: an event is priced when it is booked.
            desk.hear(sorted(await wires.listener.heard(), key=lambda record: record.topic != catalogue.PRICES.name))
        if not once:
            await wires.publisher.send(desk.open(driver.now_ms()))
            await _serve(desk, wires, console)


async def _serve(desk: Desk, wires: Link, console: Console) -> None:
    minute, shown = driver.now_ms() // MINUTE_MS, 0
    with console.status("") as status:
        while True:
            desk.hear(await wires.listener.next(timeout_s=1.0))
            now = driver.now_ms()
            if now // MINUTE_MS > minute:
                minute = now // MINUTE_MS
                await wires.publisher.send(desk.each_minute(now))
            booked = desk.croesus.verdicts["booked"]
            status.update(f"{rfc3339(now)}: {booked:,} usage events booked, {len(desk.croesus.refusals):,} refused")
            for refusal in desk.croesus.refusals[shown:]:
                console.print(refusal, style="red", markup=False)
            shown = len(desk.croesus.refusals)
