"""The metrics of `/metrics`, in the Prometheus client library; `docs/metrics.md` lists them.

Totals are exact: they are committed with each partition's position, and read from it at each scrape. The engine calls
this module once per commit, never once per record.
"""

import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, ProcessCollector
from prometheus_client.exposition import choose_encoder

from streams.metrics.census import Census, Censuses
from streams.metrics.collector import PartitionCollector
from streams.metrics.source import ShardView, Source

__all__ = ["Metrics", "ShardView", "Source"]

_SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_DELAY_SECONDS: Final = (0.1, 0.5, 1, 2, 3, 5, 10, 30, 60, 300, 3_600)
_SIZES: Final = (1, 10, 100, 1_000, 10_000, 100_000, 1_000_000)


class Metrics:
    """The metrics of one worker.

    `source`: the worker, read at each scrape. `redis_age_s`: returns the age of the Redis read model, None while Redis
    can't be reached; without it there is no metric about Redis. `now_s`: the clock that measures the delay of ticks.
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
        self._scraped: dict[int, Census] = {}
        self._read: dict[int, int] = {}
        self.registry.register(PartitionCollector(source, self._scraped))
        ProcessCollector(registry=self.registry)
        Info("obol", "The version of Obol.", registry=self.registry).info({"version": _version()})
        self._commit_seconds = Histogram(
            "obol_commit_duration_seconds",
            "Duration of a transaction.",
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._commit_records = self._sizes("obol_commit_records", "Records applied in one transaction.")
        self._commit_rows = self._sizes("obol_commit_rows", "Changed rows written in one transaction.")
        self._commit_messages = self._sizes("obol_commit_messages", "Messages written in one transaction.")
        self._last_commit = Gauge(
            "obol_commit_last_success_timestamp_seconds", "Time of the last commit.", registry=self.registry
        )
        self._tick_delay = Histogram(
            "obol_tick_delay_seconds",
            "Time from a tick's timestamp to its commit; 0 if the tick's clock is ahead of the worker's.",
            buckets=_DELAY_SECONDS,
            registry=self.registry,
        )
        if redis_age_s is not None:
            self._redis_age = Gauge(
                "obol_redis_age_seconds",
                "Age of the Redis read model; NaN while it can't be reached.",
                registry=self.registry,
            )
            self.redis_malformed = Counter(
                "obol_redis_malformed",
                "Lookups that found a malformed Redis read model; the partition owners were asked instead.",
                registry=self.registry,
            )

    def committed(
        self, shard: ShardView, *, seconds: float, rows: int, messages: int, tick_ms: int | None = None
    ) -> None:
        """Record a committed transaction. `tick_ms`: the timestamp of the latest tick in it.

        The number of records is the difference to the shard's counters at the commit before, so it is not known for
        the first transaction of a shard in this process.
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
        """Return all metrics in the format that the `Accept` header prefers, and its content type."""
        counted = {shard.partition: await self._censuses.of(shard) for shard in self._source.shards() if shard.ready}
        self._scraped.clear()
        self._scraped.update(counted)
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
