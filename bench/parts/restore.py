"""Restore: its speed after a restart, and the memory of the rows."""

from typing import Final

from bench import restorer
from bench.bench import Bench, MeasuredWorker
from bench.child import child
from bench.sizes import PARTITIONS
from bench.volume import changelog
from streams.billing.windows import Window
from streams.engine.table import TABLES
from streams.rules.rows import Deployment, Replica

PART: Final = "restore"
MEMORY: Final = "memory"
ROWS_PER_S_TARGET: Final = 100_000.0
BYTES_TARGET: Final = 1_024.0


async def measure(bench: Bench, worker: MeasuredWorker, empty_bytes: int) -> None:
    """Measure the restore of a worker, and that of the replicas' rows alone, without Kafka."""
    bench.show.part("Restore")
    replicas = bench.fleet.replicas
    rows = 0
    for table in TABLES:
        rows += await bench.cluster.count(changelog(bench, table), PARTITIONS)
    restore_s = await worker.ready()
    bench.add(PART, "a worker's restore, from assignment to active", restore_s, "s")
    bench.add(PART, "rows restored", rows / restore_s, "per second", target=ROWS_PER_S_TARGET)
    worker_bytes = worker.process.rss_bytes - empty_bytes
    count, cpu_s, rows_bytes = await _rows_alone(bench)
    bench.add(PART, "rows restored, without Kafka", count / cpu_s, "per CPU second")
    bench.add(MEMORY, "a running replica, its rows", rows_bytes / replicas, "bytes", target=BYTES_TARGET, better="less")
    bench.add(MEMORY, "a running replica, all of a restored worker", worker_bytes / replicas, "bytes")


async def _rows_alone(bench: Bench) -> tuple[int, float, int]:
    rows: list[tuple[str, bytes, bytes]] = []
    for table in (Deployment.TABLE, Replica.TABLE, Window.TABLE):
        records = bench.cluster.read(changelog(bench, table), PARTITIONS)
        latest = {key: value async for key, value in records}
        rows += [(table, key, value) for key, value in latest.items() if value is not None]
    path = bench.folder / "rows"
    restorer.write_rows(path, rows)
    with child(("-m", "bench.restorer", str(path)), "the restorer", bench.folder / "restorer.log", {}) as process:

        async def has_exited() -> bool:
            return process.has_exited

        with bench.show.waiting("restoring rows without Kafka"):
            await bench.until(has_exited, process, "the restorer's exit")
        count, cpu_s, rss_bytes = process.log.read_text(encoding="utf-8").split()[-3:]
    return int(count), float(cpu_s), int(rss_bytes)
