"""Ticks: every running window is billed its minute, usage events and rows in one transaction a partition."""

from bench.bench import MINUTE_MS, Bench, Worker
from bench.child import BenchError
from bench.figures import typical
from bench.fleet import Keyed
from bench.sizes import PARTITIONS
from topics.catalogue import CLOCK, HEARTBEATS, USAGE

PART = "ticks"
PER_CPU_S_TARGET = 100_000.0

_BEAT_BEFORE_MS = 5_000
_TICK = Keyed(b"", b'{"type":"tick"}')


async def measure(bench: Bench, worker: Worker) -> None:
    """Send ticks, each after a heartbeat of every replica, to a worker that has nothing else to do."""
    bench.show.part(f"Ticks: {bench.sizes.ticks}, each bills a minute of {bench.fleet.replicas:,} windows")
    beats = bench.fleet.heartbeats()
    ticks = {partition: [_TICK] for partition in range(PARTITIONS)}
    billed = []
    for number in range(1, bench.sizes.ticks + 1):
        at_ms = bench.minute_ms + number * MINUTE_MS
        await bench.write(HEARTBEATS.name, beats, at_ms - _BEAT_BEFORE_MS, "heartbeats of the minute")
        await worker.applied(HEARTBEATS.name, "heartbeats committed")
        billed.append(await worker.timed(CLOCK.name, ticks, at_ms, bench.fleet.replicas))
    await _check(bench)
    middle = typical(billed)
    bench.add(PART, "windows billed", middle.per_cpu_s, "per CPU second", target=PER_CPU_S_TARGET)
    bench.add(PART, "windows billed, wall", middle.per_s, "per second")
    bench.add(PART, "one tick", middle.wall_s, "s")
    bench.add(PART, "slowest tick", max(sample.wall_s for sample in billed), "s")


async def _check(bench: Bench) -> None:
    """A fast tick that bills nothing would be worth nothing: each window has one event for each tick, or we stop."""
    expected = bench.fleet.replicas * bench.sizes.ticks
    found = await bench.cluster.count(bench.settings.topic(USAGE.name), PARTITIONS)
    if found != expected:
        msg = f"{found:,} usage events were committed; {bench.sizes.ticks} ticks should have made {expected:,}"
        raise BenchError(msg)
