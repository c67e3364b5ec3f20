"""The context of a run: the installation, the fleet, the worker, and the figures so far."""

import asyncio
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from bench.child import BenchError, Child, child
from bench.cluster import Cluster
from bench.figures import Figure, Figures, Sample
from bench.fleet import Fleet, RecordsByPartition, count
from bench.loader import Loader
from bench.show import Show
from bench.sizes import PARTITIONS, Sizes
from sim.worker import free_port
from streams.settings import Settings

MINUTE_MS: Final = 60_000
POLL_S: Final = 0.02
DEADLINE_S: Final = 600.0

# Log messages of the engine.
_ASSIGNED: Final = "are assigned to this worker, in generation"
_ACTIVE: Final = "are active"
_LOGGED_AT: Final = re.compile(r"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3})\]")


@dataclass(slots=True, kw_only=True)
class Bench:
    """A run. `minute_ms`: the minute in which the fleet starts; each tick is a minute later."""

    sizes: Sizes
    settings: Settings
    cluster: Cluster
    loader: Loader
    show: Show
    folder: Path
    fleet: Fleet
    minute_ms: int
    figures: Figures = field(default_factory=Figures)

    def add(self, part: str, name: str, value: float, unit: str, **target: Any) -> None:
        """Add a figure and print it."""
        figure = Figure(part, name, value, unit, **target)
        self.figures.add(figure)
        self.show.figure(figure)

    def environment(self) -> dict[str, str]:
        """Return the settings of the installation as environment variables."""
        settings = self.settings
        return {
            "KAFKA_BOOTSTRAP_SERVERS": ",".join(settings.bootstrap_servers),
            "CROESUS_HOST": settings.croesus_host or "",
            "DEDICATED_BILLING_ENABLED": "1",
            "OBOL_NAMESPACE": settings.namespace or "",
            "OBOL_PARTITIONS": str(settings.partitions),
            "OBOL_TIMESTAMPS": settings.timestamps,
            "OBOL_CLOCK": settings.clock,
            "OBOL_DATA_DIR": str(self.folder / "worker"),
            "REDIS_URL": "",
        }

    @contextmanager
    def worker(self) -> Iterator["MeasuredWorker"]:
        """Run a worker with its views on a free port."""
        port = free_port()
        log = self.folder / "worker.log"
        arguments = ("-m", "faust", "-A", "streams.app", "worker", "--loglevel=info")
        with child(arguments, "the worker", log, {**self.environment(), "OBOL_HTTP_PORT": str(port)}) as process:
            yield MeasuredWorker(self, process, port)

    async def write(self, topic: str, records: RecordsByPartition, at_ms: int, label: str | None = None) -> None:
        """Write records; with `label`, show progress."""
        if label is None:
            await self.loader.load(topic, records, at_ms)
            return
        with self.show.counting(label, count(records)) as advance:
            await self.loader.load(topic, records, at_ms, advance)

    async def until(self, condition: Callable[[], Any], process: Child, what: str) -> None:
        """Wait until `condition` holds. Raises `BenchError` if `process` fails, or after `DEADLINE_S`."""
        end_s = time.monotonic() + DEADLINE_S
        while not await condition():
            process.check()
            if time.monotonic() >= end_s:
                msg = f"timed out after {DEADLINE_S:g} s: {what}; see {process.log}"
                raise BenchError(msg)
            await asyncio.sleep(POLL_S)


class MeasuredWorker:
    """A running worker, with its views on `port` of 127.0.0.1."""

    def __init__(self, bench: Bench, process: Child, port: int) -> None:
        self.process = process
        self.port = port
        self._bench = bench

    async def ready(self) -> float:
        """Wait until its partitions are active. Returns the seconds since their assignment, from its log."""

        async def is_active() -> bool:
            return _ACTIVE in self.process.log.read_text(encoding="utf-8", errors="replace")

        with self._bench.show.waiting("starting a worker"):
            await self._bench.until(is_active, self.process, "the worker's start")
        return restoring_s(self.process.log.read_text(encoding="utf-8", errors="replace"))

    async def applied(self, topic: str, label: str | None = None) -> Sample:
        """Wait until all records of `topic` are committed. The sample is from the first commit to the last."""
        bench = self._bench
        name = bench.settings.topic(topic)
        target = sum(await bench.cluster.ends(name, PARTITIONS))
        first = await self._committed(name)
        start = time.perf_counter(), self.process.cpu_s, first
        now = start
        is_moving = False

        async def done() -> bool:
            nonlocal start, now, is_moving
            committed = await self._committed(name)
            if committed > now[2]:
                now = time.perf_counter(), self.process.cpu_s, committed
                advance(committed - first - shown[0])
                shown[0] = committed - first
                if not is_moving:
                    is_moving = True
                    start = now
            return committed >= target

        shown = [0]
        with bench.show.counting(label or topic, target - first) as advance:
            await bench.until(done, self.process, f"{topic} read to its end")
        return Sample(now[2] - start[2], now[0] - start[0], now[1] - start[1])

    async def timed(
        self, topic: str, records: RecordsByPartition, at_ms: int, work: int, label: str | None = None
    ) -> Sample:
        """Write records to an idle worker and wait until they are committed. `work`: the count of the sample."""
        bench = self._bench
        name = bench.settings.topic(topic)
        before = time.perf_counter(), self.process.cpu_s
        await bench.write(topic, records, at_ms, label)
        target = sum(await bench.cluster.ends(name, PARTITIONS))

        async def done() -> bool:
            return await self._committed(name) >= target

        await bench.until(done, self.process, f"{topic} read to its end")
        return Sample(work, time.perf_counter() - before[0], self.process.cpu_s - before[1])

    async def _committed(self, name: str) -> int:
        return sum(await self._bench.cluster.committed(self._bench.settings.app_id, name, PARTITIONS))


def restoring_s(log: str) -> float:
    """Return the seconds from the last assignment until the partitions were active, from a worker's log."""
    assigned = active = None
    for line in log.splitlines():
        if _ASSIGNED in line:
            assigned = _logged_at(line)
        elif _ACTIVE in line:
            active = _logged_at(line)
    if assigned is None or active is None or active < assigned:
        raise BenchError("the worker's log does not say when its partitions were assigned and active")
    return (active - assigned).total_seconds()


def _logged_at(line: str) -> datetime:
    found = _LOGGED_AT.match(line)
    if found is None:
        msg = f"a line of the worker's log has no timestamp: {line}"
        raise BenchError(msg)
    return datetime.strptime(found[1], "%Y-%m-%d %H:%M:%S,%f")  # noqa: DTZ007 - only differences are used
