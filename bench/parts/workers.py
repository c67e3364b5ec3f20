"""One, two and four workers on the same machine: heartbeats and ticks, with the partitions spread over them."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Final

from bench.bench import MINUTE_MS, Bench, Measured, MeasuredWorker
from bench.child import Children
from bench.logs import assigned_partitions, is_active
from bench.parts import heartbeats, start, ticks
from bench.sizes import PARTITIONS
from topics.catalogue import HEARTBEATS

PART: Final = "workers"
NUMBERS: Final = (1, 2, 4)


async def measure(bench: Bench) -> None:
    """Measure each number of workers on the same fleet."""
    await start.start(bench)
    for number in NUMBERS:
        bench.show.part(f"Workers: {number}")
        with _workers(bench, number) as workers:
            await _until_spread(bench, workers)
            processes = Children([worker.process for worker in workers])
            await _measure(bench, number, Measured(bench, processes, bench.settings.app_id))


async def _measure(bench: Bench, number: int, program: Measured) -> None:
    minute_ms = bench.tick_ms
    records = bench.fleet.heartbeats(minute_ms)
    times_ms = heartbeats.round_times(minute_ms, bench.sizes.rounds)
    before_s = program.cpu_s
    with bench.show.waiting("writing heartbeats"):
        await bench.loader.load_at_once(HEARTBEATS.name, records, times_ms)
    committed = await program.applied(HEARTBEATS.name, "heartbeats committed")
    # Not from the first commit, before which workers have read much of the backlog already.
    cpu_s = program.cpu_s - before_s
    billed = await ticks.minute(bench, program, minute_ms + MINUTE_MS)
    label = "one worker" if number == 1 else f"{number} workers"
    bench.add(PART, f"{label}, heartbeats", committed.per_s, "per second")
    bench.add(PART, f"{label}, CPU", cpu_s * 1_000_000 / bench.sizes.heartbeats, "CPU s per million heartbeats")
    bench.add(PART, f"{label}, windows billed", billed.per_s, "per second")
    bench.add(PART, f"{label}, resident memory", program.process.rss_bytes / 1_000_000, "MB")


@contextmanager
def _workers(bench: Bench, number: int) -> Iterator[Sequence[MeasuredWorker]]:
    with ExitStack() as stack:
        yield [stack.enter_context(bench.worker(f"worker-{number}-{at}")) for at in range(number)]


async def _until_spread(bench: Bench, workers: Sequence[MeasuredWorker]) -> None:
    """Wait until each worker has its share of the partitions, and they are active."""
    share = PARTITIONS // len(workers)

    async def is_spread() -> bool:
        logs = [worker.process.text for worker in workers]
        return all(is_active(log) and assigned_partitions(log) == share for log in logs)

    with bench.show.waiting("starting the workers"):
        await bench.until(is_spread, Children([worker.process for worker in workers]), "the spread of the partitions")
