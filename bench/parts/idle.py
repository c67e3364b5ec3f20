"""An idle worker: its CPU time while it has partitions and rows, and no records arrive."""

import asyncio
import time
from typing import Final

from bench.bench import Bench, MeasuredWorker

PART: Final = "idle"
TARGET_PERCENT: Final = 1.0

_SETTLE_S: Final = 5.0
_CHECK_S: Final = 1.0


async def measure(bench: Bench, worker: MeasuredWorker) -> None:
    """Measure a worker for `idle_s` without records and without ticks."""
    bench.show.part("An idle worker")
    with bench.show.waiting(f"measuring an idle worker for {bench.sizes.idle_s:g} s"):
        await asyncio.sleep(_SETTLE_S)  # what the requests before it left to do
        start_s, start_cpu_s = time.perf_counter(), worker.process.cpu_s
        while time.perf_counter() < start_s + bench.sizes.idle_s:
            await asyncio.sleep(_CHECK_S)
            worker.process.check()
        share = (worker.process.cpu_s - start_cpu_s) / (time.perf_counter() - start_s)
    bench.add(
        PART,
        "a worker with partitions and no records",
        100 * share,
        "% of a core",
        target=TARGET_PERCENT,
        better="less",
    )
