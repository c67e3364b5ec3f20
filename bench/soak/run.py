"""Drives a run: the fleet's heartbeats and the ticks of each minute, a crash of the worker, and the audit."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final

from aiokafka import TopicPartition

from bench.bench import Bench, MeasuredWorker
from bench.child import Child, child
from bench.cluster import consumer
from bench.parts import start, ticks
from bench.sizes import PARTITIONS
from bench.soak import report
from bench.soak.audit import Verdict
from bench.soak.clock import REAL_MINUTE_S, Clock, minute_after, now_ms
from bench.soak.watch import Usage, Watch
from streams.engine.tasks import cancel_and_wait
from streams.engine.ticks import TICK_DELAY_MS
from streams.limits import MINUTE_MS
from topics.catalogue import CLOCK, HEARTBEATS, USAGE
from topics.provision import connected, ensure_topics, new_topic

# The heartbeats and usage events of an hour of a million replicas would fill a disk.
_BOUNDED: Final = {"retention.bytes": str(1 << 30), "segment.bytes": str(64 << 20)}

_FIRST_HEARTBEAT_MS: Final = 15_000
"""In time-lapse: after the start of the fleet's minute, in which its replicas start."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A run of `minutes` minutes, which last `minute_s` seconds each."""

    minutes: int
    minute_s: float

    @property
    def is_real_time(self) -> bool:
        """Whether the broker sets the timestamps and the workers write the ticks, as in production."""
        return self.minute_s == REAL_MINUTE_S

    def clock(self, bench: Bench) -> Clock:
        """Return the clock of a run that starts now."""
        event_ms = now_ms() if self.is_real_time else bench.minute_ms + _FIRST_HEARTBEAT_MS
        return Clock(event_ms, now_ms(), self.minute_s)


@dataclass(slots=True)
class Soak:
    """A run, and what it found. `minutes`: what was measured in each."""

    bench: Bench
    plan: Plan
    minutes: list[dict[str, float]] = field(default_factory=list)
    verdict: Verdict | None = None

    async def run(self) -> None:
        """Run, and add the figures to the bench. Raises `BenchError`."""
        namespace = self.bench.settings.namespace
        self.bench.show.part(f"Soak run {namespace}: {self.plan.minutes} minutes of {self.plan.minute_s:g} s")
        await _create_bounded_topics(self.bench)
        await start.start(self.bench)
        self.bench.figures.figures.clear()
        with self.bench.worker("worker-1") as worker:
            await worker.ready()
            clock = self.plan.clock(self.bench)
            from_ms = minute_after(clock.event_now_ms)
            until_ms = from_ms + self.plan.minutes * MINUTE_MS
            with self._auditor(until_ms) as auditor:
                async with _ticks(self.bench) as reader, self._ticking(clock, from_ms, until_ms) as ticking:
                    watch = Watch(self.bench, reader, clock, from_ms)
                    await self._load(worker, _Progress(self, watch, auditor, from_ms, ticking), from_ms)
                await self._finish(auditor)

    async def _load(self, worker: MeasuredWorker, progress: "_Progress", from_ms: int) -> None:
        """Keep the load up until the last minute is billed; the worker is killed in the middle."""
        watch = progress.watch
        until_ms = from_ms + self.plan.minutes * MINUTE_MS
        crash_ms = from_ms + self.plan.minutes // 2 * MINUTE_MS
        with self._writer(watch.clock) as writer:
            others = (progress.auditor, writer)
            await watch.until(lambda: progress.is_tick_of(crash_ms), crash_ms, worker.process, others)
            recovery_s = -time.monotonic()
            worker.process.kill()
            self.bench.show.part("The worker was killed with SIGKILL, in the middle of a tick, and is started again")
            with self.bench.worker("worker-2") as restarted:
                await self._until_committing(watch, restarted)
                recovery_s += time.monotonic()
                await watch.until(lambda: progress.is_billed(until_ms), until_ms, restarted.process, others)
                figures = (
                    *report.worker_figures(watch.workers, recovery_s),
                    *report.tick_figures(watch.billed, crash_ms),
                )
                writer.stop()
                await restarted.caught_up(HEARTBEATS.name)
        heartbeats, late_s = writer.text.split()[-2:]
        self.bench.add("heartbeats", "committed", int(heartbeats), "heartbeats")
        self.bench.add("heartbeats", "greatest delay of a write", float(late_s), "s")
        for figure in figures:
            self.bench.figures.add(figure)

    async def _until_committing(self, watch: Watch, worker: MeasuredWorker) -> None:
        before = await watch.heartbeats()
        await worker.ready()

        async def has_committed() -> bool:
            return await watch.heartbeats() > before

        await self.bench.until(has_committed, worker.process, "the first commit after the crash")

    async def _finish(self, auditor: Child) -> None:
        auditor.terminate()

        async def has_exited() -> bool:
            return auditor.has_exited

        with self.bench.show.waiting("reading the last usage events"):
            await self.bench.until(has_exited, auditor, "the auditor's exit")
        self.verdict = Verdict(**json.loads(auditor.text.splitlines()[-1]))
        self.bench.figures.figures[:0] = report.audit_figures(self.verdict)

    @asynccontextmanager
    async def _ticking(self, clock: Clock, from_ms: int, until_ms: int) -> "AsyncIterator[asyncio.Task[None] | None]":
        """Yield a task that writes ticks; in real time, the workers do so."""
        if self.plan.is_real_time:
            yield None
            return
        task = asyncio.create_task(_write_ticks(self.bench, clock, from_ms, until_ms))
        try:
            yield task
        finally:
            await cancel_and_wait([task])

    @contextmanager
    def _auditor(self, until_ms: int) -> Iterator[Child]:
        arguments = ("-m", "bench.soak.auditor", str(self.bench.fleet.replicas), str(PARTITIONS), str(until_ms))
        log = self.bench.folder / "auditor.log"
        with child(arguments, "the auditor", log, self.bench.environment()) as process:
            yield process

    @contextmanager
    def _writer(self, clock: Clock) -> Iterator[Child]:
        fleet = (str(self.bench.fleet.replicas), str(PARTITIONS))
        times = (str(clock.event_ms), str(clock.real_ms), str(clock.minute_s))
        log = self.bench.folder / "writer.log"
        with child(("-m", "bench.soak.writer", *fleet, *times), "the writer", log, self.bench.environment()) as process:
            yield process


class _Progress:
    """Prints a line for each billed minute, and keeps its figures. `ticking`: the task that writes ticks, if any."""

    def __init__(
        self, soak: Soak, watch: Watch, auditor: Child, from_ms: int, ticking: "asyncio.Task[None] | None"
    ) -> None:
        self.watch = watch
        self.auditor = auditor
        self._soak = soak
        self._ticking = ticking
        self._from_ms = from_ms
        self._printed_ms = from_ms

    def is_tick_of(self, minute_ms: int) -> bool:
        """Return whether a tick of a minute was written."""
        self._print()
        return self.watch.has_tick(minute_ms)

    def is_billed(self, until_ms: int) -> bool:
        """Return whether all minutes up to a time are billed."""
        self._print()
        return self.watch.is_billed(until_ms)

    def _print(self) -> None:
        if self._ticking and self._ticking.done():
            self._ticking.result()
        minute_ms = self._printed_ms + MINUTE_MS
        if not self.watch.is_billed(minute_ms):
            return
        self._printed_ms = minute_ms
        number = (minute_ms - self._from_ms) // MINUTE_MS
        since_ms = self.watch.clock.real_of(minute_ms - MINUTE_MS)
        samples = [sample for sample in self.watch.workers[-1] if sample.at_ms >= since_ms]
        found = {
            "minute": number,
            **_resources(samples),
            "delay_s": max(billed.delay_s for billed in self.watch.billed if billed.minute_ms == minute_ms),
        }
        self._soak.minutes.append(found)
        audited = self.auditor.text.split()
        resources = "CPU {cpu_percent:.0f} % of a core, {rss_mb:.0f} MB, " if "rss_mb" in found else ""
        self._soak.bench.show.line(
            f"minute {number} of {self._soak.plan.minutes}: billed after {found['delay_s']:.2f} s, "
            f"{resources.format(**found)}{int(audited[-1]) if audited else 0:,} usage events audited"
        )


def _resources(samples: Sequence[Usage]) -> dict[str, float]:
    """Return the worker's resources in a minute; none in the one in which it was started again."""
    if len(samples) <= 1:
        return {}
    return {"cpu_percent": report.cpu_percent(samples), "rss_mb": samples[-1].rss_bytes / 1e6}


async def _create_bounded_topics(bench: Bench) -> None:
    specs = [new_topic(spec, bench.settings) for spec in (HEARTBEATS, USAGE)]
    async with connected(bench.settings) as admin:
        await ensure_topics(admin, [replace(spec, config={**spec.config, **_BOUNDED}) for spec in specs])


async def _write_ticks(bench: Bench, clock: Clock, from_ms: int, until_ms: int) -> None:
    for minute_ms in range(from_ms, until_ms + 1, MINUTE_MS):
        at_ms = minute_ms + TICK_DELAY_MS
        await asyncio.sleep(clock.s_until(at_ms))
        await bench.write(CLOCK.name, ticks.TICKS, at_ms)


@asynccontextmanager
async def _ticks(bench: Bench) -> AsyncIterator[Any]:
    """Yield a consumer of the ticks."""
    async with consumer(bench.settings) as reader:
        tps = [TopicPartition(bench.settings.topic(CLOCK.name), partition) for partition in range(PARTITIONS)]
        reader.assign(tps)
        await reader.seek_to_beginning(*tps)
        yield reader
