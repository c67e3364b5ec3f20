"""After a restart: how fast the rows come back, and how much memory they hold."""

from typing import Final

from bench import restorer
from bench.bench import Bench, Worker
from bench.child import child
from bench.sizes import PARTITIONS
from streams.billing.windows import Window
from streams.engine.table import TABLES
from streams.rules.rows import Deployment, Replica

PART: Final = "restore"
MEMORY: Final = "memory"
ROWS_PER_S_TARGET: Final = 100_000.0
BYTES_TARGET: Final = 1_024.0


async def measure(bench: Bench, worker: Worker, empty_bytes: int) -> None:
    """Start `worker`; then measure the rows of running replicas on their own, without Kafka around them."""
    bench.show.part("Restore")
    replicas = bench.fleet.replicas
    rows = 0
    for table in TABLES:
        rows += await bench.cluster.count(_changelog(bench, table), PARTITIONS)
    taken_s = await worker.ready()
    bench.add(PART, "a worker's start, from assignment to work", taken_s, "s")
    bench.add(PART, "rows read back", rows / taken_s, "per second", target=ROWS_PER_S_TARGET)
    held = (worker.process.rss_bytes - empty_bytes) / replicas
    count, cpu_s, held_alone = await _alone(bench)
    bench.add(PART, "rows read back, without Kafka", count / cpu_s, "per CPU second")
    bench.add(MEMORY, "a running replica, its rows", held_alone / replicas, "bytes", target=BYTES_TARGET, better="less")
    bench.add(MEMORY, "a running replica, all of a worker just restored", held, "bytes")


async def _alone(bench: Bench) -> tuple[int, float, int]:
    rows: list[tuple[str, bytes, bytes]] = []
    for table in (Deployment.TABLE, Replica.TABLE, Window.TABLE):
        changelog = bench.cluster.read(_changelog(bench, table), PARTITIONS)
        latest = {key: value async for key, value in changelog}
        rows += [(table, key, value) for key, value in latest.items()]
    path = bench.folder / "rows"
    restorer.write_rows(path, rows)
    with child(("-m", "bench.restorer", str(path)), "the restorer", bench.folder / "restorer.log", {}) as process:

        async def has_ended() -> bool:
            return process.has_ended

        with bench.show.waiting("rows alone"):
            await bench.until(has_ended, process, "the restorer's end")
        count, cpu_s, held = process.log.read_text(encoding="utf-8").split()[-3:]
    return int(count), float(cpu_s), int(held)


def _changelog(bench: Bench, table: str) -> str:
    return f"{bench.settings.app_id}-{table}-changelog"
