"""A run: it creates its own installation, measures all parts, and deletes its topics."""

import asyncio
import os
import shutil
import time
import uuid
from collections.abc import Awaitable, Callable
from typing import Any, Final

from bench import peer
from bench.bench import MINUTE_MS, Bench
from bench.child import ROOT
from bench.cluster import cluster
from bench.figures import Figure
from bench.fleet import Fleet
from bench.loader import loader
from bench.parts import heartbeats, idle, pages, requests, restore, start, streams, ticks
from bench.show import Show
from bench.sizes import PARTITIONS, Sizes
from streams.billing.minutes import floor_minute
from streams.settings import Settings

_STARTED_AGO_MS: Final = 30 * MINUTE_MS
"""Records have timestamps of the recent past, since brokers refuse timestamps far in the future."""


Run = Callable[[Bench], Awaitable[None]]
"""What is measured in an installation."""


async def run(
    sizes: Sizes, show: Show, measure: Run, *, started_ago_ms: int = _STARTED_AGO_MS, **settings: Any
) -> list[Figure]:
    """Measure in a new installation. Raises `BenchError`, and `KafkaError` if the cluster can't be used.

    `started_ago_ms`: how long ago the fleet starts. `settings`: those that differ from the benchmarks'.
    """
    minute_ms = floor_minute(time.time_ns() // 1_000_000 - started_ago_ms)
    return await _run(_settings(**settings), sizes, show, measure, minute_ms)


async def _run(settings: Settings, sizes: Sizes, show: Show, measure: Run, minute_ms: int) -> list[Figure]:
    async with cluster(settings) as broker, loader(settings) as writer:
        bench = Bench(
            sizes=sizes,
            settings=settings,
            cluster=broker,
            loader=writer,
            show=show,
            folder=ROOT / ".obol" / str(settings.namespace),
            fleet=Fleet(sizes.replicas, PARTITIONS, sizes.one_org),
            minute_ms=minute_ms,
            tick_ms=minute_ms,
        )
        bench.folder.mkdir(parents=True)
        has_failed = False
        try:
            await measure(bench)
        except Exception:
            has_failed = True
            raise
        finally:
            await asyncio.shield(broker.remove())
            if not has_failed:  # its logs are kept
                shutil.rmtree(bench.folder)
    return bench.figures.figures


async def all_parts(bench: Bench) -> None:
    """Measure all parts."""
    empty_bytes = await start.start(bench)
    await heartbeats.write_backlog(bench, bench.minute_ms)
    stock = await heartbeats.measure_stock(bench)
    raw = await heartbeats.measure_raw(bench)
    with bench.worker() as worker:
        await heartbeats.measure(bench, worker, stock, raw)
        await ticks.measure(bench, worker)
        await requests.measure(bench, worker)
    with bench.worker() as worker:
        await restore.measure(bench, worker, empty_bytes)
        await pages.measure(bench, worker)
        await idle.measure(bench, worker)


async def against_streams(bench: Bench) -> None:
    """Measure Kafka Streams and Obol alternately."""
    bench.show.part("Building the Kafka Streams program")
    await streams.measure(bench, await asyncio.to_thread(peer.build))


def _settings(**others: Any) -> Settings:
    given = Settings.load_or_exit(os.environ)
    ours: dict[str, Any] = {
        "croesus_host": given.bootstrap_servers[0],
        "billing_enabled": True,
        "billing_dry_run": False,
        "namespace": f"bench-{uuid.uuid4().hex[:8]}",
        "partitions": PARTITIONS,
        "timestamps": "producer",
        "clock": "log",
        "http_host": "127.0.0.1",
    }
    return given.having(**(ours | others))
