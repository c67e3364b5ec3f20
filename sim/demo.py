"""`make demo`: a worker, two hours of a fleet in time-lapse, what they cost, and then the fleet live."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn

from schemas.times import rfc3339
from sim import driver, show, stories
from sim.audit import Audit, audit
from sim.cast import SPAN_MS, Cast
from sim.kafka import Installation, Link, NotPassedError, link
from sim.records import CURRENCY, TICK_DELAY_MS
from sim.signals import ended_by_signals
from sim.stage import HEARD, Stage
from sim.worker import ROOT, Worker, WorkerError, worker
from topics.provision import ProvisionError, provision

Result = TypeVar("Result")

_LOGS: Final = ROOT / ".obol" / "demo"
_INTERRUPTED: Final = 130
_UNSET: Final = ("REDIS_URL", "OBOL_HTTP_TOKEN", "OBOL_ADVERTISED_URL", "OBOL_DATA_DIR", "OBOL_RETENTION_H")


@dataclass(frozen=True, slots=True)
class Demo:
    """One play of the demo. `installation` has a namespace of its own; its topics are deleted at the end."""

    installation: Installation
    seed: int
    extras: int
    once: bool
    keep_topics: bool
    console: Console

    async def run(self) -> int:
        """Play it; the exit code: 1 when a figure is wrong or something broke, 130 when it was ended early."""
        try:
            async with ended_by_signals(), self._topics():
                return await self._play()
        except asyncio.CancelledError:
            self.console.print("Stopped before its end.")
            return _INTERRUPTED
        except (WorkerError, NotPassedError, ProvisionError, KafkaError, OSError) as error:
            self.console.print(f"The demo can't go on: {error}", style="red", markup=False)
            return 1

    async def _play(self) -> int:
        log = _LOGS / f"{self.installation.namespace}.log"
        with self.console.status("Making topics"):
            await provision(self.installation)
        async with worker(self._environment(), log) as child:
            with self.console.status(f"Starting a worker, its log is {log}"):
                await _while_alive(child, child.ready())
            async with link(self.installation, HEARD) as wires:
                end_ms = driver.last_tick_ms(driver.now_ms()) - TICK_DELAY_MS
                cast = Cast(self.seed, end_ms - SPAN_MS, self.extras)
                stage = Stage(self.seed, cast.user_lives(), cast.cues(), cast.execlet_casting(), cast.host_casting())
                await _while_alive(child, self._time_lapse(cast, stage, wires))
                found = await asyncio.to_thread(self._tell, cast, stage, child)
                if not self.once:
                    with suppress(asyncio.CancelledError):  # Ctrl-C is how it ends
                        await _while_alive(child, self._live(cast, stage, wires, found))
                    self.console.print("Stopping the fleet and its worker.")
                return 1 if found.problems else 0

    def _environment(self) -> dict[str, str]:
        installation = self.installation
        return {
            **dict.fromkeys(_UNSET, ""),
            "KAFKA_BOOTSTRAP_SERVERS": installation.bootstrap_servers,
            "CROESUS_HOST": installation.bootstrap_servers.partition(",")[0],
            "DEDICATED_BILLING_ENABLED": "1",
            "DEDICATED_BILLING_DRY_RUN": "0",
            "OBOL_NAMESPACE": installation.namespace or "",
            "OBOL_PARTITIONS": str(installation.partitions),
            "OBOL_REPLICATION": str(installation.replication),
            "OBOL_CURRENCY": CURRENCY,
            "OBOL_TIMESTAMPS": "producer",
            "OBOL_CLOCK": "log",
        }

    async def _time_lapse(self, cast: Cast, stage: Stage, wires: Link) -> None:
        times = driver.tick_times(cast.start_ms, cast.end_ms)
        columns = (
            SpinnerColumn(),
            TextColumn("two hours in time-lapse, log time {task.fields[clock]}"),
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("{task.fields[events]:,} usage events"),
            TimeElapsedColumn(),
        )
        with Progress(*columns, console=self.console) as progress:
            task = progress.add_task("", total=len(times), clock=stories.clock(rfc3339(cast.start_ms)), events=0)

            def after_minute(tick_ms: int) -> None:
                events = stage.croesus.verdicts["booked"]
                progress.update(task, advance=1, clock=stories.clock(rfc3339(tick_ms)), events=events)

            await driver.time_lapse(stage, wires, times, after_minute)

    def _tell(self, cast: Cast, stage: Stage, child: Worker) -> Audit:
        with self.console.status("Reading the views"):
            found = audit(cast.orgs, child.views, stage)
            evidence = stories.Evidence(stage, child.views)
            told = [_story(teller, evidence, found) for teller in stories.TELLERS]
        self.console.print(show.bill(stage.croesus, cast.orgs, found))
        self.console.print(show.verdicts(stage.croesus))
        self.console.print(show.told(told))
        self.console.print()
        self.console.print(show.conclusion(found))
        base, when = child.views.base, ", while it ran" if self.once else ""
        self.console.print(f"Web views{when}: {base}/ (an org: {base}/orgs/{cast.orgs[0]})", markup=False)
        return found

    async def _live(self, cast: Cast, stage: Stage, wires: Link, found: Audit) -> None:
        self.console.print("The fleet lives on: a minute is billed each minute, until Ctrl-C.")
        told = seen = stage.croesus.verdicts["booked"]
        with self.console.status("") as status:

            def after_second(now_ms: int) -> None:
                nonlocal told, seen
                clock = stories.clock(rfc3339(now_ms))
                events = stage.croesus.verdicts["booked"]
                status.update(f"{clock}  {events:,} usage events so far")
                # A tick's events come partition by partition: told once no more follow.
                if events == seen and events > told:
                    amount = sum(account.amount for account in stage.croesus.accounts.values())
                    self.console.print(
                        f"{clock}  a minute billed: {events - told:,} events, {amount:,.2f} {CURRENCY} in all"
                    )
                    told = events
                seen = events
                for refusal in stage.croesus.refusals:
                    found.problems.append(refusal)
                    self.console.print(refusal, style="red", markup=False)
                stage.croesus.refusals.clear()

            await driver.live(stage, wires, cast.end_ms + TICK_DELAY_MS, ticking=True, after_second=after_second)

    @asynccontextmanager
    async def _topics(self) -> AsyncIterator[None]:
        try:
            yield
        finally:
            if not self.keep_topics:
                with self.console.status("Deleting the demo's topics"):
                    await _delete_topics(self.installation)


def _story(teller: stories.Teller, evidence: stories.Evidence, found: Audit) -> stories.Story:
    """Tell a story, or what is missing for it: then the demo has failed."""
    try:
        return teller(evidence)
    except (LookupError, ValueError) as error:
        name = teller.__name__.replace("_", " ")
        found.problems.append(f"the story of the {name} can't be told: {error}")
        return stories.Story(name, (f"did not come about: {error}",))


async def _while_alive(child: Worker, work: Coroutine[Any, Any, Result]) -> Result:
    """Do `work`; raises WorkerError when the worker ends before it is done."""
    doing, dying = asyncio.create_task(work), asyncio.create_task(child.died())
    try:
        done, _ = await asyncio.wait((doing, dying), return_when=asyncio.FIRST_COMPLETED)
        if dying in done:
            await dying
        return await doing
    finally:
        doing.cancel()
        dying.cancel()
        await asyncio.gather(doing, dying, return_exceptions=True)


async def _delete_topics(installation: Installation) -> None:
    """Delete every topic of the installation's namespace, the worker's own ones too."""
    admin = AIOKafkaAdminClient(**installation.kafka_client_options())
    with suppress(KafkaError, OSError):
        try:
            await admin.start()
            own = [name for name in await admin.list_topics() if name.startswith(installation.topic(""))]
            if own:
                await admin.delete_topics(own)
        finally:
            await admin.close()
