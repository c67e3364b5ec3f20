"""Readings of partitions, as Prometheus wants them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from streams.metrics import families
from streams.metrics.census import Census
from streams.metrics.families import Family
from streams.metrics.reading import PartitionReading

Gauges = dict[str, GaugeMetricFamily]


class PartitionCollector(Collector):
    """Turns readings and censuses into metrics at the moment they are asked for; keeps nothing of its own.

    `readings` gives the assigned partitions, `census` the last count by partition, `now_ms` the wall clock, which only
    lags are measured with.
    """

    def __init__(
        self,
        readings: Callable[[], Iterable[PartitionReading]],
        census: Mapping[int, Census],
        now_ms: Callable[[], int],
    ) -> None:
        self._readings = readings
        self._census = census
        self._now_ms = now_ms

    def describe(self) -> Iterable[Metric]:
        """Name what `collect` gives, without reading anything."""
        return chain(_counters().values(), _gauges().values())

    def collect(self) -> Iterable[Metric]:
        """Read every partition now."""
        counters, gauges = _counters(), _gauges()
        now_ms = self._now_ms()
        for reading in self._readings():
            partition = str(reading.partition)
            for (kind, detail), value in reading.counts.items():
                family = families.COUNTERS.get(kind)
                if family is not None:
                    labels = [partition, detail][: len(family.all_labels)]
                    counters[kind].add_metric(labels, value / family.per)
            _add_state(gauges, reading, now_ms)
            census = self._census.get(reading.partition)
            if census is not None and reading.ledger is not None:
                _add_census(gauges, partition, census)
        return chain(counters.values(), gauges.values())


def _counters() -> dict[str, CounterMetricFamily]:
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


def _add_state(gauges: Gauges, reading: PartitionReading, now_ms: int) -> None:
    partition = str(reading.partition)
    for topic, records in reading.lag_records.items():
        _add(gauges, families.LAG_RECORDS, (partition, topic), records)
    behind = any(reading.lag_records.values()) and reading.as_of_ms is not None
    _add(gauges, families.LAG_SECONDS, (partition,), max(0, now_ms - (reading.as_of_ms or 0)) / 1_000 if behind else 0)
    _add(gauges, families.RESTORE_RATIO, (partition,), reading.restored)
    _add(gauges, families.READY, (partition,), int(reading.ledger is not None))


def _add_census(gauges: Gauges, partition: str, census: Census) -> None:
    for word, number in census.windows.items():
        _add(gauges, families.WINDOWS, (partition, word), number)
    for field, ms in census.figures._asdict().items():
        _add(gauges, families.WINDOW_SECONDS, (partition, field.removesuffix("_ms")), ms)
    _add(gauges, families.UNEXPLAINED_SECONDS, (partition,), census.unexplained_ms)
    _add(gauges, families.UNEXPLAINED_WINDOWS, (partition,), census.unexplained_windows)
    _add(gauges, families.ORGS, (partition,), census.orgs)
    for family, counts in (
        (families.DEPLOYMENTS, census.deployments),
        (families.REPLICAS, census.replicas),
        (families.INSTANCES, census.instances),
    ):
        for word, number in counts.items():
            _add(gauges, family, (partition, word), number)
