"""The list of metrics, from the registry itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streams.billing.prices import Prices
from streams.metrics import Metrics, families
from streams.metrics.census import CONDITIONS, Censuses
from streams.rules.context import Switches

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streams.metrics import Shard

_HEAD = """\
# Metrics

What a worker tells Prometheus at `/metrics`. Each worker tells of the partitions that it has; `sum by (…)` over all
workers tells of the fleet. Made from the code by `make docs`; `grafana-dashboard.json` shows all of it.

Totals (`…_total`) with a `partition` are exact: they are committed in the same transaction as what they count, and go
with the partition from worker to worker. Where one moves, its series ends in one worker and begins in another at the
same number, so take `max by (partition, …)` before a sum, and `rate()` before either. Histograms begin anew with each
process.

Rows are counted (`obol_windows`, `obol_window_seconds`, `obol_replicas` …) when Prometheus asks where a partition has
few, up to a thousand; in the background where it has more, as often as a fiftieth of one core allows.

| metric | kind | labels | says |
| --- | --- | --- | --- |
"""

_TAIL = f"""
`obol_windows` stands under one condition a window: {", ".join(f"`{condition}`" for condition in CONDITIONS)}.

Two alarms that every installation should have:

- `max(obol_unexplained_seconds) > 0`: a millisecond that nothing explains (B12).
- `max(obol_lag_seconds) > 120`: a partition is behind, so bills come late (they are never wrong for it).
"""


class _Nothing:
    """A worker without partitions."""

    switches = Switches()
    prices = Prices()
    prices_refused = 0

    def shards(self) -> Sequence[Shard]:
        return ()


def metrics_page() -> str:
    """The page."""
    registry = Metrics(_Nothing(), Censuses(_Nothing()), redis_age_s=lambda: None).registry
    labels = {family.name: family.all_labels for family in (*families.COUNTERS.values(), *families.GAUGES)}
    labels["obol"] = ("version",)
    rows = []
    for metric in sorted(registry.collect(), key=lambda found: found.name):
        if metric.name.startswith("obol"):
            suffix = {"counter": "_total", "info": "_info"}.get(metric.type, "")
            named = ", ".join(f"`{label}`" for label in labels.get(metric.name, ()))
            rows.append(f"| `{metric.name}{suffix}` | {metric.type} | {named} | {metric.documentation} |")
    return _HEAD + "\n".join(rows) + "\n" + _TAIL
