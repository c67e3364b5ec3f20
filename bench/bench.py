"""The context of a run: the installation, the fleet, the worker, and the figures so far."""

import asyncio
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from bench.child import BenchError, Child, Children, child
from bench.cluster import Cluster
from bench.figures import Figure, Figures, Sample
from bench.fleet import Fleet, RecordsByPartition, count
from bench.loader import Loader
from bench.logs import is_active, restoring_s
from bench.show import Show
from bench.sizes import PARTITIONS, Sizes
from sim.worker import HOST
from streams.settings import Settings

MINUTE_MS: Final = 60_000
POLL_S: Final = 0.02
DEADLINE_S: Final = 600.0


@dataclass(slots=True, kw_only=True)
class Bench:
    """A run. `minute_ms`: the minute in which the fleet starts. `tick_ms`: the latest tick, or that minute."""

    sizes: Sizes
    settings: Settings
    cluster: Cluster
    loader: Loader
    show: Show
    folder: Path
    fleet: Fleet
    minute_ms: int
    tick_ms: int
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
            "DEDICATED_BILLING_DRY_RUN": "0",
            "OBOL_HTTP_HOST": HOST,
            "OBOL_NAMESPACE": settings.namespace or "",
            "OBOL_PARTITIONS": str(settings.partitions),
            "OBOL_TIMESTAMPS": settings.timestamps,
            "OBOL_CLOCK": settings.clock,
            "REDIS_URL": "",
        }

    @contextmanager
    def worker(self, name: str = "worker") -> Iterator["MeasuredWorker"]:
        """Run a worker with its views on a free port. `name`: of its log and its data folder."""
        port = _any_port()
        log = self.folder / f"{name}.log"
        environment = {
            **self.environment(),
            "OBOL_HTTP_PORT": str(port),
            "OBOL_DATA_DIR": str(self.folder / name),
        }
        arguments = ("-m", "faust", "-A", "streams.app", "worker", "--loglevel=info")
        with child(arguments, "the worker", log, environment) as process:
            yield MeasuredWorker(self, process, port)

    async def write(self, topic: str, records: RecordsByPartition, at_ms: int, label: str | None = None) -> None:
        """Write records; with `label`, show progress."""
        if label is None:
            await self.loader.load(topic, records, at_ms)
            return
        with self.show.counting(label, count(records)) as advance:
            await self.loader.load(topic, records, at_ms, advance)

    async def until(self, condition: Callable[[], Any], process: Child | Children, what: str) -> None:
        """Wait until `condition` holds. Raises `BenchError` if `process` fails, or after `DEADLINE_S`."""
        end_s = time.monotonic() + DEADLINE_S
        while not await condition():
            process.check()
            if time.monotonic() >= end_s:
                msg = f"timed out after {DEADLINE_S:g} s: {what}; see {process.log}"
                raise BenchError(msg)
            await asyncio.sleep(POLL_S)


def _any_port() -> int:
    """Return a free port. Not the first of a range, which several workers that start at the same time would all get."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


class Measured:
    """A running program that reads the fleet's records, with the offsets that `group` commits.

    `prefix`: of the names of its topics, after the namespace.
    """

    def __init__(self, bench: Bench, process: Child | Children, group: str, prefix: str = "") -> None:
        self.process = process
        self.prefix = prefix
        self._bench = bench
        self._group = group

    @property
    def cpu_s(self) -> float:
        """CPU time so far in seconds."""
        return self.process.cpu_s

    async def write(self, topic: str, records: RecordsByPartition, at_ms: int, label: str | None = None) -> None:
        """Write records to its topic; with `label`, show progress."""
        await self._bench.write(self.prefix + topic, records, at_ms, label)

    async def applied(self, topic: str, label: str | None = None, *, last: int | None = None) -> Sample:
        """Wait until all records of `topic` are committed.

        The sample is from the first commit to the last, or from where `last` records are left.
        """
        bench = self._bench
        name = self._name(topic)
        target = await self._end(name)
        first = await self._committed(name)
        sample_from = first if last is None else max(first, target - last)
        start: tuple[float, float, int] | None = None
        now = time.perf_counter(), self.cpu_s, first

        async def done() -> bool:
            nonlocal start, now
            committed = await self._committed(name)
            if committed > now[2]:
                advance(committed - now[2])
                now = time.perf_counter(), self.cpu_s, committed
                if start is None or committed <= sample_from:
                    start = now
            return committed >= target

        with bench.show.counting(label or topic, target - first) as advance:
            await bench.until(done, self.process, f"{topic} read to its end")
        start = start or now
        return Sample(now[2] - start[2], now[0] - start[0], now[1] - start[1])

    async def timed(
        self, topic: str, records: RecordsByPartition, at_ms: int, work: int, label: str | None = None
    ) -> Sample:
        """Write records to an idle program and wait until they are committed. `work`: the count of the sample."""
        before = time.perf_counter(), self.cpu_s
        await self.write(topic, records, at_ms, label)
        await self.caught_up(topic)
        return Sample(work, time.perf_counter() - before[0], self.cpu_s - before[1])

    async def caught_up(self, topic: str) -> None:
        """Wait until all records of `topic` that are stored now are committed."""
        name = self._name(topic)
        target = await self._end(name)

        async def done() -> bool:
            return await self._committed(name) >= target

        await self._bench.until(done, self.process, f"{topic} read to its end")

    def _name(self, topic: str) -> str:
        return self._bench.settings.topic(self.prefix + topic)

    async def _end(self, name: str) -> int:
        return sum(await self._bench.cluster.ends(name, PARTITIONS))

    async def _committed(self, name: str) -> int:
        return sum(await self._bench.cluster.committed(self._group, name, PARTITIONS))


class MeasuredWorker(Measured):
    """A running worker, with its views on `port` of 127.0.0.1."""

    def __init__(self, bench: Bench, process: Child, port: int) -> None:
        super().__init__(bench, process, bench.settings.app_id)
        self.process: Child = process
        self.port = port

    async def ready(self) -> float:
        """Wait until its partitions are active. Returns the seconds since their assignment, from its log."""

        async def active() -> bool:
            return is_active(self.process.text)

        with self._bench.show.waiting("starting a worker"):
            await self._bench.until(active, self.process, "the worker's start")
        return restoring_s(self.process.text)
