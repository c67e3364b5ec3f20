"""Measures a run while it goes on: the worker's CPU time and memory, and how late each minute was billed."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from bench.bench import DEADLINE_S, Bench
from bench.child import BenchError, Child
from bench.sizes import PARTITIONS
from bench.soak.clock import Clock, now_ms
from streams.billing.minutes import floor_minute
from streams.engine.ticks import TICK_DELAY_MS
from streams.limits import MINUTE_MS
from topics.catalogue import CLOCK, HEARTBEATS

POLL_S: Final = 0.05
SAMPLE_MS: Final = 1_000


@dataclass(frozen=True, slots=True)
class Usage:
    """A worker's resources: the system's time, CPU time since the worker's start, resident memory."""

    at_ms: int
    cpu_s: float
    rss_bytes: int


@dataclass(frozen=True, slots=True)
class Billed:
    """A minute of a partition, and how long after its tick was due its usage events were committed."""

    minute_ms: int
    delay_s: float


@dataclass(slots=True)
class Delays:
    """The delays of one partition's minutes, from its ticks as (offset, timestamp) and its committed offset.

    A minute without a tick of its own is billed by the next tick.
    """

    billed_ms: int
    clock: Clock
    _ticks: list[tuple[int, int]] = field(default_factory=list)

    def tick(self, offset: int, timestamp_ms: int) -> None:
        """Add a tick that was written."""
        self._ticks.append((offset, timestamp_ms))

    def committed(self, offset: int, at_ms: int) -> list[Billed]:
        """Return the minutes that are billed now that the offsets before `offset` are committed."""
        found = []
        while self._ticks and self._ticks[0][0] < offset:
            until_ms = floor_minute(self._ticks.pop(0)[1])
            while self.billed_ms < until_ms:
                self.billed_ms += MINUTE_MS
                due_ms = self.clock.real_of(self.billed_ms + TICK_DELAY_MS)
                found.append(Billed(self.billed_ms, max(0.0, (at_ms - due_ms) / 1_000)))
        return found


class Watch:
    """Samples a run. `from_ms`: the minute up to which nothing is to be billed; delays count from the next one."""

    def __init__(self, bench: Bench, consumer: Any, clock: Clock, from_ms: int) -> None:
        self.workers: list[list[Usage]] = []
        self.billed: list[Billed] = []
        self.clock = clock
        self._bench = bench
        self._consumer = consumer
        self._partitions = [Delays(from_ms, clock) for _ in range(PARTITIONS)]
        self._ticks_seen_ms = from_ms

    def is_billed(self, until_ms: int) -> bool:
        """Return whether all partitions have committed the ticks of all minutes up to a time."""
        return all(partition.billed_ms >= until_ms for partition in self._partitions)

    def has_tick(self, minute_ms: int) -> bool:
        """Return whether a tick of a minute was written."""
        return self._ticks_seen_ms >= minute_ms

    async def until(self, condition: Callable[[], bool], due_ms: int, worker: Child, others: Sequence[Child]) -> None:
        """Sample `worker` until `condition` holds, which is expected at `due_ms`.

        Raises `BenchError` if a process fails, or `DEADLINE_S` after that time.
        """
        samples: list[Usage] = []
        self.workers.append(samples)
        end_ms = self.clock.real_of(due_ms) + DEADLINE_S * 1_000
        while not condition():
            for process in (worker, *others):
                process.check()
            if now_ms() > end_ms:
                raise BenchError(f"the worker is more than {DEADLINE_S:g} s late; see {worker.log}")
            await self._sample(samples, worker)
            await asyncio.sleep(POLL_S)

    async def heartbeats(self) -> int:
        """Return the number of committed heartbeats."""
        name = self._bench.settings.topic(HEARTBEATS.name)
        return sum(await self._bench.cluster.committed(self._bench.settings.app_id, name, PARTITIONS))

    async def _sample(self, samples: list[Usage], worker: Child) -> None:
        for tp, records in (await self._consumer.getmany(timeout_ms=0)).items():
            for record in records:
                self._partitions[tp.partition].tick(record.offset, record.timestamp)
                self._ticks_seen_ms = max(self._ticks_seen_ms, record.timestamp)
        bench = self._bench
        committed = await bench.cluster.committed(bench.settings.app_id, bench.settings.topic(CLOCK.name), PARTITIONS)
        at_ms = now_ms()
        for partition, offset in zip(self._partitions, committed, strict=True):
            self.billed += partition.committed(offset, at_ms)
        if not samples or at_ms >= samples[-1].at_ms + SAMPLE_MS:
            samples.append(Usage(at_ms, worker.cpu_s, worker.rss_bytes))
