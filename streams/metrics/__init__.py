"""What `/metrics` tells Prometheus, through its own client library; `docs/metrics.md` lists every metric.

Totals are exact: they are committed with each partition's position, and read off it when Prometheus asks. The engine
calls in here once a commit, never once a record.
"""

import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import Final

from prometheus_client import CollectorRegistry, Gauge, Histogram, Info, ProcessCollector
from prometheus_client.exposition import choose_encoder

from streams.metrics.census import Census, Censuses
from streams.metrics.collector import PartitionCollector
from streams.metrics.source import Shard, Source

__all__ = ["Metrics", "Shard", "Source"]

_SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_DELAY_SECONDS: Final = (0.1, 0.5, 1, 2, 3, 5, 10, 30, 60, 300, 3_600)
_SIZES: Final = (1, 10, 100, 1_000, 10_000, 100_000, 1_000_000)


class Metrics:
    """One worker's metrics.

    `source` is asked at each scrape for the partitions assigned to this worker. `redis_age_s` gives how old the Redis
    read model is, None while it can't be reached; without the function nothing is said about Redis. `now_s` is the
    clock that delays of ticks are measured with.
    """

    def __init__(
        self,
        source: Source,
        censuses: Censuses,
        redis_age_s: Callable[[], float | None] | None = None,
        now_s: Callable[[], float] = time.time,
    ) -> None:
        self.registry = CollectorRegistry()
        self._source = source
        self._censuses = censuses
        self._redis_age_s = redis_age_s
        self._now_s = now_s
        self._told: dict[int, Census] = {}
        self._read: dict[int, int] = {}
        self.registry.register(PartitionCollector(source, self._told))
        ProcessCollector(registry=self.registry)
        Info("obol", "The version that runs.", registry=self.registry).info({"version": _version()})
        self._commit_seconds = Histogram(
            "obol_commit_duration_seconds",
            "Time from the first byte of a transaction to its commit.",
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._commit_records = self._sizes("obol_commit_records", "Records applied in one transaction.")
        self._commit_rows = self._sizes("obol_commit_rows", "Changed rows written in one transaction.")
        self._commit_messages = self._sizes("obol_commit_messages", "Outbound messages sent in one transaction.")
        self._last_commit = Gauge(
            "obol_commit_last_success_timestamp_seconds", "When a transaction last committed.", registry=self.registry
        )
        self._tick_delay = Histogram(
            "obol_tick_delay_seconds",
            "Time from a tick's timestamp to the commit of what it did, 0 where clocks disagree.",
            buckets=_DELAY_SECONDS,
            registry=self.registry,
        )
        if redis_age_s is not None:
            self._redis_age = Gauge(
                "obol_redis_age_seconds",
                "Age of the Redis read model; NaN while it can't be reached.",
                registry=self.registry,
            )

    def committed(self, shard: Shard, *, seconds: float, rows: int, messages: int, tick_ms: int | None = None) -> None:
        """Count a transaction that was committed: how long it took, and what was in it.

        How many records it applied is the difference that it made to the shard's counters, so a shard's first
        transaction in this process says nothing of that. `tick_ms`: the time of the latest tick, where it has one.
        """
        read = sum(number for (kind, _), number in shard.counters.items() if kind == "read")
        before = self._read.get(shard.partition)
        if before is not None and before <= read:
            self._commit_records.observe(read - before)
        self._read[shard.partition] = read
        self._commit_seconds.observe(seconds)
        self._commit_rows.observe(rows)
        self._commit_messages.observe(messages)
        self._last_commit.set_to_current_time()
        if tick_ms is not None:
            self._tick_delay.observe(max(0.0, self._now_s() - tick_ms / 1_000))

    async def scrape(self, accept: str = "") -> tuple[bytes, str]:
        """Everything as text in the format that the `Accept` header prefers, with its content type."""
        told = {shard.partition: await self._censuses.of(shard) for shard in self._source.shards() if shard.ready}
        self._told.clear()
        self._told.update(told)
        if self._redis_age_s is not None:
            age_s = self._redis_age_s()
            self._redis_age.set(float("nan") if age_s is None else age_s)
        encode, content_type = choose_encoder(accept)
        return encode(self.registry), content_type

    def _sizes(self, name: str, documentation: str) -> Histogram:
        return Histogram(name, documentation, buckets=_SIZES, registry=self.registry)


def _version() -> str:
    try:
        return version("obol")
    except PackageNotFoundError:
        return "unknown"
