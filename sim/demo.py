"""`make demo`: a worker, two hours of a fleet in time-lapse, the bill, and then the fleet in real time."""

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
from sim.kafka import Installation, Link, NotCommittedError, link
from sim.records import CURRENCY, TICK_DELAY_MS
from sim.script import SPAN_MS, Script
from sim.signals import ended_by_signals
from sim.stage import OUTPUT_TOPICS, Stage
from sim.worker import ROOT, WorkerError, WorkerProcess, worker
from topics.provision import ProvisionError, provision

Result = TypeVar("Result")

_LOGS: Final = ROOT / ".obol" / "demo"
_INTERRUPTED: Final = 130
_UNSET: Final = ("REDIS_URL", "OBOL_HTTP_TOKEN", "OBOL_ADVERTISED_URL", "OBOL_DATA_DIR", "OBOL_RETENTION_H")


@dataclass(frozen=True, slots=True)
class Demo:
    """A run of the demo. `installation` has its own namespace, whose topics are deleted at the end."""

    installation: Installation
    seed: int
    extras: int
    once: bool
    keep_topics: bool
    console: Console

    async def run(self) -> int:
        """Run the demo. Returns the exit code: 1 if a figure is wrong or an error occurred, 130 if interrupted."""
        try:
            async with ended_by_signals(), self._topics():
                return await self._play()
        except asyncio.CancelledError:
            self.console.print("Interrupted.")
            return _INTERRUPTED
        except (WorkerError, NotCommittedError, ProvisionError, KafkaError, OSError) as error:
            self.console.print(f"The demo failed: {error}", style="red", markup=False)
            return 1

    async def _play(self) -> int:
        log = _LOGS / f"{self.installation.namespace}.log"
        with self.console.status("Creating topics"):
            await provision(self.installation)
        async with worker(self._environment(), log) as child:
            with self.console.status(f"Starting a worker; its log is {log}"):
                await _while_alive(child, child.ready())
            async with link(self.installation, OUTPUT_TOPICS) as kafka:
                end_ms = driver.last_tick_ms(driver.now_ms()) - TICK_DELAY_MS
                script = Script(self.seed, end_ms - SPAN_MS, self.extras)
                stage = Stage(
                    self.seed,
                    script.user_actors(),
                    script.croesus_actions(),
                    script.execlet_behavior(),
                    script.host_behavior(),
                )
                await _while_alive(child, self._time_lapse(script, stage, kafka))
                found = await asyncio.to_thread(self._report, script, stage, child)
                if not self.once:
                    with suppress(asyncio.CancelledError):  # until Ctrl-C
                        await _while_alive(child, self._live(script, stage, kafka, found))
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

    async def _time_lapse(self, script: Script, stage: Stage, kafka: Link) -> None:
        times = driver.tick_times(script.start_ms, script.end_ms)
        columns = (
            SpinnerColumn(),
            TextColumn("two hours in time-lapse, log time {task.fields[clock]}"),
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("{task.fields[events]:,} usage events"),
            TimeElapsedColumn(),
        )
        with Progress(*columns, console=self.console) as progress:
            task = progress.add_task("", total=len(times), clock=stories.clock(rfc3339(script.start_ms)), events=0)

            def after_minute(tick_ms: int) -> None:
                events = stage.croesus.verdicts["booked"]
                progress.update(task, advance=1, clock=stories.clock(rfc3339(tick_ms)), events=events)

            await driver.time_lapse(stage, kafka, times, after_minute)

    def _report(self, script: Script, stage: Stage, child: WorkerProcess) -> Audit:
        with self.console.status("Reading the views"):
            found = audit(script.orgs, child.views, stage)
            evidence = stories.Evidence(stage, child.views)
            report = [_story(builder, evidence, found) for builder in stories.STORIES]
        self.console.print(show.bill(stage.croesus, script.orgs, found))
        self.console.print(show.verdicts(stage.croesus))
        self.console.print(show.report(report))
        self.console.print()
        self.console.print(show.audit_summary(found))
        base, when = child.views.base, " during the demo" if self.once else ""
        self.console.print(f"Web views{when}: {base}/ (an org: {base}/orgs/{script.orgs[0]})", markup=False)
        return found

    async def _live(self, script: Script, stage: Stage, kafka: Link, found: Audit) -> None:
        self.console.print("The fleet continues in real time, until Ctrl-C.")
        reported = seen = stage.croesus.verdicts["booked"]
        with self.console.status("") as status:

            def after_second(now_ms: int) -> None:
                nonlocal reported, seen
                clock = stories.clock(rfc3339(now_ms))
                events = stage.croesus.verdicts["booked"]
                status.update(f"{clock}  {events:,} usage events so far")
                # The events of a tick arrive partition by partition: report them once no more arrive.
                if events == seen and events > reported:
                    amount = sum(account.amount for account in stage.croesus.accounts.values())
                    self.console.print(
                        f"{clock}  usage events: {events - reported:,}; billed in total: {amount:,.2f} {CURRENCY}"
                    )
                    reported = events
                seen = events
                for refusal in stage.croesus.refusals:
                    found.problems.append(refusal)
                    self.console.print(refusal, style="red", markup=False)
                stage.croesus.refusals.clear()

            await driver.live(stage, kafka, script.end_ms + TICK_DELAY_MS, ticking=True, after_second=after_second)

    @asynccontextmanager
    async def _topics(self) -> AsyncIterator[None]:
        try:
            yield
        finally:
            if not self.keep_topics:
                with self.console.status("Deleting the demo's topics"):
                    await _delete_topics(self.installation)


def _story(builder: stories.StoryBuilder, evidence: stories.Evidence, found: Audit) -> stories.Story:
    """Build a story. If figures are missing, add a problem, which makes the demo fail."""
    try:
        return builder(evidence)
    except (LookupError, ValueError) as error:
        name = builder.__name__.replace("_", " ")
        found.problems.append(f"the story {name} is incomplete: {error}")
        return stories.Story(name, (f"incomplete: {error}",))


async def _while_alive(child: WorkerProcess, work: Coroutine[Any, Any, Result]) -> Result:
    """Run `work`. Raises `WorkerError` if the worker exits first."""
    running, exited = asyncio.create_task(work), asyncio.create_task(child.wait_exit())
    try:
        done, _ = await asyncio.wait((running, exited), return_when=asyncio.FIRST_COMPLETED)
        if exited in done:
            await exited
        return await running
    finally:
        running.cancel()
        exited.cancel()
        await asyncio.gather(running, exited, return_exceptions=True)


async def _delete_topics(installation: Installation) -> None:
    """Delete all topics of the installation's namespace, including the changelogs."""
    admin = AIOKafkaAdminClient(**installation.kafka_client_options())
    with suppress(KafkaError, OSError):
        try:
            await admin.start()
            own = [name for name in await admin.list_topics() if name.startswith(installation.topic(""))]
            if own:
                await admin.delete_topics(own)
        finally:
            await admin.close()
