"""A Prometheus collector of the partitions' metrics."""

from collections.abc import Iterable, Mapping, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from streams.metrics import families
from streams.metrics.census import Census
from streams.metrics.families import Family
from streams.metrics.source import ShardView, Source

Counters = dict[str, CounterMetricFamily]
Gauges = dict[str, GaugeMetricFamily]


class PartitionCollector(Collector):
    """Reads shards and their censuses at each scrape."""

    def __init__(self, source: Source, census: Mapping[int, Census]) -> None:
        self._source = source
        self._census = census

    def describe(self) -> Iterable[Metric]:
        """Return the metrics without samples."""
        return (*_counters().values(), *_gauges().values(), _refused(0), _disagreements(0), _open_transactions(0))

    def collect(self) -> Iterable[Metric]:
        """Return the metrics of all partitions."""
        counters, gauges = _counters(), _gauges()
        for shard in self._source.shards():
            _add_counts(counters, shard)
            _add_state(gauges, shard)
            census = self._census.get(shard.partition)
            if census is not None and shard.ready:
                _add_census(gauges, str(shard.partition), census)
        source = self._source
        return (
            *counters.values(),
            *gauges.values(),
            _refused(source.prices_refused),
            _disagreements(len(source.disagreements)),
            _open_transactions(len(source.open_transactions)),
        )


def _refused(prices: int) -> CounterMetricFamily:
    documentation = "Invalid records of croesus.prices, which were ignored. Each worker reads and counts all prices."
    return CounterMetricFamily("obol_prices_refused", documentation, value=prices)


def _disagreements(number: int) -> GaugeMetricFamily:
    documentation = "Settings in which other workers differ from this one: not 0 is an alarm."
    return GaugeMetricFamily("obol_settings_disagreements", documentation, value=number)


def _open_transactions(number: int) -> GaugeMetricFamily:
    documentation = (
        "Partitions of inputs that can't be read on, as a transaction of another program is open there: "
        "more than 0 for some minutes is an alarm."
    )
    return GaugeMetricFamily("obol_open_transactions", documentation, value=number)


def _counters() -> Counters:
    return {
        kind: CounterMetricFamily(family.name, family.help, labels=family.all_labels)
        for kind, family in families.COUNTERS.items()
    }


def _gauges() -> Gauges:
    return {
        family.name: GaugeMetricFamily(family.name, family.help, labels=family.all_labels) for family in families.GAUGES
    }


def _add(gauges: Gauges, family: Family, labels: Sequence[str], value: float) -> None:
    gauges[family.name].add_metric(labels, value / family.per)


def _add_counts(counters: Counters, shard: ShardView) -> None:
    for (kind, detail), value in shard.counters.items():
        family = families.COUNTERS.get(kind)
        if family is not None:
            labels = (str(shard.partition), detail)[: len(family.all_labels)]
            counters[kind].add_metric(labels, value / family.per)


def _add_state(gauges: Gauges, shard: ShardView) -> None:
    labels = (str(shard.partition),)
    values = (
        (families.LAG_RECORDS, shard.lag_records),
        (families.LAG_SECONDS, shard.lag_ms),
        (families.RESTORED_RECORDS, shard.restored_rows),
        (families.RESTORE_RECORDS, shard.restore_total),
        (families.READY, int(shard.ready)),
        (families.BLOCKED, int(shard.blocked is not None)),
    )
    for family, value in values:
        if value is not None:
            _add(gauges, family, labels, value)


def _add_census(gauges: Gauges, partition: str, census: Census) -> None:
    for condition, number in census.windows.items():
        _add(gauges, families.WINDOWS, (partition, condition), number)
    for field, ms in census.totals.figures._asdict().items():
        _add(gauges, families.WINDOW_SECONDS, (partition, field.removesuffix("_ms")), ms)
    _add(gauges, families.UNEXPLAINED_SECONDS, (partition,), census.totals.unexplained_ms)
    _add(gauges, families.UNEXPLAINED_WINDOWS, (partition,), census.totals.unexplained_windows)
    for kind, count in census.zombies.items():
        _add(gauges, families.ZOMBIES, (partition, kind), count)
    _add(gauges, families.ORGS, (partition,), census.orgs)
    for family, counts in (
        (families.DEPLOYMENTS, census.deployments),
        (families.REPLICAS, census.replicas),
        (families.INSTANCES, census.instances),
    ):
        for state, number in counts.items():
            _add(gauges, family, (partition, state), number)
