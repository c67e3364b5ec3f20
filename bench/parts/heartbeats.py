"""Heartbeats: the stock agent, an Obol worker, and raw aiokafka, on the same topic."""

import asyncio
import time

from bench.bench import POLL_S, Bench, MeasuredWorker
from bench.child import BenchError, child
from bench.figures import Sample
from bench.fleet import count
from bench.sizes import PARTITIONS
from topics.catalogue import HEARTBEATS

PART = "heartbeats"
FIRST_ROUND_MS = 20_000
LAST_ROUND_MS = 50_000
WARM_UP_S = 2.0

RATIO_TARGET = 10.0


async def write_backlog(bench: Bench, minute_ms: int, prefix: str = "") -> None:
    """Write all rounds of heartbeats, with timestamps in the 20th to 50th second of a minute.

    `prefix`: of the topic's name, after the namespace.
    """
    bench.show.part(f"Heartbeats: {bench.sizes.heartbeats:,}")
    records = bench.fleet.heartbeats(minute_ms + FIRST_ROUND_MS)
    with bench.show.counting("writing heartbeats", bench.sizes.heartbeats) as advance:
        for at_ms in round_times(minute_ms, bench.sizes.rounds):
            await bench.loader.load(prefix + HEARTBEATS.name, records, at_ms, advance)
    if count(records) != bench.fleet.replicas:
        raise BenchError("the fleet does not have one heartbeat for each replica")


def round_times(minute_ms: int, rounds: int) -> list[int]:
    """Return the time of each round of heartbeats, in the 20th to 50th second of a minute."""
    return [minute_ms + FIRST_ROUND_MS + (LAST_ROUND_MS - FIRST_ROUND_MS) * at // rounds for at in range(rounds)]


async def measure_stock(bench: Bench) -> Sample:
    """Measure the stock agent for `stock_s`. Each changelog record counts as a heartbeat."""
    app_id = bench.settings.topic("stock")
    changelog = f"{app_id}-last_health_check-changelog"
    environment = {
        **bench.environment(),
        "BENCH_APP_ID": app_id,
        "BENCH_TOPIC": bench.settings.topic(HEARTBEATS.name),
        "BENCH_PARTITIONS": str(PARTITIONS),
        "BENCH_DATA_DIR": str(bench.folder / "stock"),
    }
    arguments = ("-m", "faust", "-A", "bench.stock", "worker", "--loglevel=info", "--without-web")

    with child(arguments, "the stock agent", bench.folder / "stock.log", environment) as process:

        async def is_active() -> bool:
            return changelog in await bench.cluster.topics() and await done() > 0

        async def done() -> int:
            return sum(await bench.cluster.ends(changelog, PARTITIONS))

        with bench.show.waiting("starting the stock agent"):
            await bench.until(is_active, process, "the stock agent's first row")
        await asyncio.sleep(WARM_UP_S)
        start_s, start_cpu_s, before = time.perf_counter(), process.cpu_s, await done()
        shown = after = before
        with bench.show.counting("rows written by the stock agent", bench.sizes.heartbeats - before) as advance:
            while time.perf_counter() < start_s + bench.sizes.stock_s and after < bench.sizes.heartbeats:
                await asyncio.sleep(POLL_S * 10)
                process.check()
                after = await done()
                advance(after - shown)
                shown = after
        return Sample(after - before, time.perf_counter() - start_s, process.cpu_s - start_cpu_s)


async def measure_raw(bench: Bench) -> Sample:
    """Measure reading the topic and discarding the records."""
    total = bench.sizes.heartbeats
    arguments = ("-m", "bench.raw", bench.settings.topic(HEARTBEATS.name), str(PARTITIONS), str(total))
    with child(arguments, "raw aiokafka", bench.folder / "raw.log", bench.environment()) as process:

        async def has_exited() -> bool:
            return process.has_exited

        with bench.show.waiting("reading with raw aiokafka"):
            await bench.until(has_exited, process, "raw aiokafka's exit")
        wall_s, cpu_s = map(float, process.log.read_text(encoding="utf-8").split()[-2:])
    return Sample(total, wall_s, cpu_s)


async def measure(bench: Bench, worker: MeasuredWorker, stock: Sample, raw: Sample) -> None:
    """Measure a worker with all its rows on the backlog of heartbeats."""
    bench.show.part("Heartbeats: Obol")
    await worker.ready()
    ours = await worker.applied(HEARTBEATS.name, "heartbeats committed by Obol")
    for name, sample in (("stock Faust agent", stock), ("Obol", ours), ("raw aiokafka, records discarded", raw)):
        bench.add(PART, name, sample.per_s, "per second")
        bench.add(PART, f"{name}, CPU", sample.cpu_s_per_million, "CPU s per million")
    bench.add(PART, "Obol / stock, rate", ours.per_s / stock.per_s, "times", target=RATIO_TARGET)
    bench.add(PART, "stock / Obol, CPU", stock.cpu_s_per_million / ours.cpu_s_per_million, "times")
