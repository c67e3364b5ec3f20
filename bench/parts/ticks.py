"""Ticks: a minute of every open window is billed, with one transaction per partition."""

from bench import volume
from bench.bench import MINUTE_MS, Bench, Measured, MeasuredWorker
from bench.child import BenchError
from bench.figures import Sample, typical
from bench.fleet import KeyValue
from bench.sizes import PARTITIONS
from topics.catalogue import CLOCK, HEARTBEATS, USAGE

PART = "ticks"
BYTES = "bytes"
PER_CPU_S_TARGET = 100_000.0

_HEARTBEAT_BEFORE_MS = 5_000
TICKS = {partition: [KeyValue(b"", b'{"type":"tick"}')] for partition in range(PARTITIONS)}


async def heartbeats(bench: Bench, program: Measured, at_ms: int) -> None:
    """Have a heartbeat of every replica committed, 5 s before `at_ms`."""
    sent_ms = at_ms - _HEARTBEAT_BEFORE_MS
    await program.write(HEARTBEATS.name, bench.fleet.heartbeats(sent_ms), sent_ms, "heartbeats of the minute")
    await program.applied(HEARTBEATS.name, "heartbeats committed")


async def tick(bench: Bench, program: Measured, at_ms: int) -> Sample:
    """Measure a tick in an idle program, until it is committed."""
    bench.tick_ms = at_ms
    return await program.timed(CLOCK.name, TICKS, at_ms, bench.fleet.replicas)


async def minute(bench: Bench, program: Measured, at_ms: int) -> Sample:
    """Measure a tick after a heartbeat of every replica."""
    await heartbeats(bench, program, at_ms)
    return await tick(bench, program, at_ms)


async def measure(bench: Bench, worker: MeasuredWorker) -> None:
    """Measure ticks in an idle worker, each after a heartbeat of every replica."""
    bench.show.part(f"Ticks: {bench.sizes.ticks}, each bills a minute of {bench.fleet.replicas:,} windows")
    billed = [await minute(bench, worker, bench.tick_ms + MINUTE_MS) for _ in range(bench.sizes.ticks)]
    typical_tick = typical(billed)
    bench.add(PART, "windows billed", typical_tick.per_cpu_s, "per CPU second", target=PER_CPU_S_TARGET)
    bench.add(PART, "windows billed, elapsed", typical_tick.per_s, "per second")
    bench.add(PART, "one tick", typical_tick.wall_s, "s")
    bench.add(PART, "slowest tick", max(sample.wall_s for sample in billed), "s")
    await _measure_bytes(bench, worker)
    await _check(bench)


async def _measure_bytes(bench: Bench, worker: MeasuredWorker) -> None:
    """Measure the bytes that one more minute writes."""
    at_ms = bench.tick_ms + MINUTE_MS
    before = await volume.ends(bench)
    await heartbeats(bench, worker, at_ms)
    for_heartbeats = await volume.written(bench, before)
    before = await volume.ends(bench)
    await tick(bench, worker, at_ms)
    for_tick = await volume.written(bench, before)
    usage = for_tick[bench.settings.topic(USAGE.name)]
    for name, size in (
        ("rows written for a heartbeat", sum(for_heartbeats.values())),
        ("rows written for a window and tick", sum(for_tick.values()) - usage),
        ("a usage event", usage),
    ):
        bench.add(BYTES, f"{name}, key and value", size / bench.fleet.replicas, "bytes")


async def _check(bench: Bench) -> None:
    """Raise `BenchError` unless there is one usage event for each window and tick."""
    ticks = (bench.tick_ms - bench.minute_ms) // MINUTE_MS
    expected = bench.fleet.replicas * ticks
    found = await bench.cluster.count(bench.settings.topic(USAGE.name), PARTITIONS)
    if found != expected:
        msg = f"{found:,} usage events were committed, but {ticks} ticks must send {expected:,}"
        raise BenchError(msg)
