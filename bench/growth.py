"""How the cost grows: with the number of replicas in one worker, with the size of an org, and with the workers."""

from dataclasses import replace
from typing import Final

from bench.bench import MINUTE_MS, Bench
from bench.figures import Figure, Figures, typical
from bench.parts import heartbeats, start, ticks, workers
from bench.run import run
from bench.show import Show
from bench.sizes import Sizes
from topics.catalogue import HEARTBEATS

PART: Final = "growth"
RATIO_TARGET: Final = 1.25
"""Linear, with room for what differs between two runs on the same machine."""

_MAX_ROUNDS: Final = 50
_CPU: Final = "CPU of a minute"


async def measure(sizes: Sizes, show: Show) -> list[Figure]:
    """Measure a tenth of the replicas, all, ten times as many, and all in one org; then one, two and four workers."""
    steps = [
        replace(
            sizes,
            replicas=replicas,
            rounds=min(_MAX_ROUNDS, max(1, sizes.heartbeats // replicas)),
            one_org=one_org,
        )
        for replicas, one_org in (
            (sizes.replicas // 10, False),
            (sizes.replicas, False),
            (sizes.replicas * 10, False),
            (sizes.replicas, True),
        )
    ]
    measured = [await run(step, show, one_size) for step in steps]
    found = Figures([figure for figures in measured for figure in figures])
    small, middle, large, one_org = (figures[-1].part for figures in measured)
    for name, over, under in (
        ("CPU of a replica's minute, most / least replicas", large, small),
        ("CPU of a replica's minute, one org / many", one_org, middle),
    ):
        value = found.value(over, _CPU) / found.value(under, _CPU)
        found.add(Figure(PART, name, value, "times", target=RATIO_TARGET, better="less"))
    return found.figures + await run(sizes, show, workers.measure)


async def one_size(bench: Bench) -> None:
    """Measure one worker."""
    part = f"{bench.fleet.replicas:,} replicas" + (", one org" if bench.sizes.one_org else "")
    empty_bytes = await start.start(bench)
    bench.figures.figures.clear()
    await heartbeats.write_backlog(bench, bench.minute_ms)
    with bench.worker() as worker:
        await worker.ready()
        committed = await worker.applied(HEARTBEATS.name, "heartbeats committed")
        billed = typical(
            [await ticks.minute(bench, worker, bench.tick_ms + MINUTE_MS) for _ in range(bench.sizes.ticks)]
        )
    with bench.worker() as worker:
        restore_s = await worker.ready()
        worker_bytes = worker.process.rss_bytes - empty_bytes
    bench.add(part, "heartbeats committed", committed.per_s, "per second")
    bench.add(part, "CPU of heartbeats", committed.cpu_s_per_million, "CPU s per million")
    bench.add(part, "windows billed", billed.per_s, "per second")
    bench.add(part, "CPU of a tick", billed.cpu_s_per_million, "CPU s per million windows")
    bench.add(part, _CPU, committed.cpu_s_per_million + billed.cpu_s_per_million, "µs per replica")
    bench.add(part, "a restart, from assignment to active", restore_s, "s")
    bench.add(part, "memory of a restored worker", worker_bytes / bench.fleet.replicas, "bytes per replica")
