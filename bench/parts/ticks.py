"""Ticks: a minute of every open window is billed, with one transaction per partition."""

from bench.bench import MINUTE_MS, Bench, MeasuredWorker
from bench.child import BenchError
from bench.figures import typical
from bench.fleet import KeyValue
from bench.sizes import PARTITIONS
from topics.catalogue import CLOCK, HEARTBEATS, USAGE

PART = "ticks"
PER_CPU_S_TARGET = 100_000.0

_HEARTBEAT_BEFORE_MS = 5_000
_TICK = KeyValue(b"", b'{"type":"tick"}')


async def measure(bench: Bench, worker: MeasuredWorker) -> None:
    """Measure ticks in an idle worker, each after a heartbeat of every replica."""
    bench.show.part(f"Ticks: {bench.sizes.ticks}, each bills a minute of {bench.fleet.replicas:,} windows")
    records = bench.fleet.heartbeats()
    ticks = {partition: [_TICK] for partition in range(PARTITIONS)}
    billed = []
    for number in range(1, bench.sizes.ticks + 1):
        at_ms = bench.minute_ms + number * MINUTE_MS
        await bench.write(HEARTBEATS.name, records, at_ms - _HEARTBEAT_BEFORE_MS, "heartbeats of the minute")
        await worker.applied(HEARTBEATS.name, "heartbeats committed")
        billed.append(await worker.timed(CLOCK.name, ticks, at_ms, bench.fleet.replicas))
    await _check(bench)
    typical_tick = typical(billed)
    bench.add(PART, "windows billed", typical_tick.per_cpu_s, "per CPU second", target=PER_CPU_S_TARGET)
    bench.add(PART, "windows billed, elapsed", typical_tick.per_s, "per second")
    bench.add(PART, "one tick", typical_tick.wall_s, "s")
    bench.add(PART, "slowest tick", max(sample.wall_s for sample in billed), "s")


async def _check(bench: Bench) -> None:
    """Raise `BenchError` unless there is one usage event for each window and tick."""
    expected = bench.fleet.replicas * bench.sizes.ticks
    found = await bench.cluster.count(bench.settings.topic(USAGE.name), PARTITIONS)
    if found != expected:
        msg = f"{found:,} usage events were committed, but {bench.sizes.ticks} ticks must send {expected:,}"
        raise BenchError(msg)
