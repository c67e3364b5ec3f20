"""A run: it creates its own installation, measures all parts, and deletes its topics."""

import asyncio
import os
import shutil
import time
import uuid
from typing import Final

from bench.bench import MINUTE_MS, Bench
from bench.child import ROOT
from bench.cluster import cluster
from bench.figures import Figure
from bench.fleet import Fleet
from bench.loader import loader
from bench.parts import heartbeats, pages, requests, restore, start, ticks
from bench.show import Show
from bench.sizes import PARTITIONS, Sizes
from streams.settings import Settings

_STARTED_AGO_MS: Final = 30 * MINUTE_MS
"""Records have timestamps of the recent past, since brokers refuse timestamps far in the future."""


async def run(sizes: Sizes, show: Show) -> list[Figure]:
    """Measure all parts. Raises `BenchError`, and `KafkaError` if the cluster can't be used."""
    settings = _settings()
    async with cluster(settings) as broker, loader(settings) as writer:
        bench = Bench(
            sizes=sizes,
            settings=settings,
            cluster=broker,
            loader=writer,
            show=show,
            folder=ROOT / ".obol" / str(settings.namespace),
            fleet=Fleet(sizes.replicas, PARTITIONS),
            minute_ms=(time.time_ns() // 1_000_000 - _STARTED_AGO_MS) // MINUTE_MS * MINUTE_MS,
        )
        bench.folder.mkdir(parents=True)
        try:
            await _measure(bench)
        finally:
            await asyncio.shield(broker.remove())
    # Only after success: the logs of a failed run are kept.
    shutil.rmtree(bench.folder)
    return bench.figures.figures


async def _measure(bench: Bench) -> None:
    empty_bytes = await start.start(bench)
    await heartbeats.write_backlog(bench)
    stock = await heartbeats.measure_stock(bench)
    raw = await heartbeats.measure_raw(bench)
    with bench.worker() as worker:
        await heartbeats.measure(bench, worker, stock, raw)
        await ticks.measure(bench, worker)
        await requests.measure(bench, worker)
    with bench.worker() as worker:
        await restore.measure(bench, worker, empty_bytes)
        await pages.measure(bench, worker)


def _settings() -> Settings:
    given = Settings.load_or_exit(os.environ)
    return given.having(
        croesus_host=given.bootstrap_servers[0],
        billing_enabled=True,
        billing_dry_run=False,
        namespace=f"bench-{uuid.uuid4().hex[:8]}",
        partitions=PARTITIONS,
        timestamps="producer",
        clock="log",
        http_host="127.0.0.1",
    )
