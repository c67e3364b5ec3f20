"""The Grafana dashboard: what to look at first when money is in question, then how the workers do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Json = dict[str, Any]

_COLUMNS = 24
_SOURCE = {"type": "prometheus", "uid": "${source}"}
_RATE = "$__rate_interval"


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One panel: its queries with their legends, its unit, and how large it is in Grafana's grid."""

    title: str
    queries: tuple[tuple[str, str], ...]
    says: str = ""
    unit: str = "short"
    kind: Literal["timeseries", "stat"] = "timeseries"
    width: int = 8
    height: int = 8
    alarm_above: float | None = None
    stacked: bool = False


def _rate(metric: str, by: str) -> str:
    return f'sum by ({by}) (rate({metric}{{job=~"$job"}}[{_RATE}]))'


def _sum(metric: str, by: str) -> str:
    return f'sum by ({by}) ({metric}{{job=~"$job"}})'


def _stat(title: str, query: str, says: str, unit: str = "short", alarm_above: float | None = None) -> Panel:
    return Panel(
        title=title,
        queries=((query, ""),),
        says=says,
        unit=unit,
        kind="stat",
        width=4,
        height=4,
        alarm_above=alarm_above,
    )


def _quantiles(title: str, metric: str, unit: str, says: str) -> Panel:
    buckets = f'sum by (le) (rate({metric}_bucket{{job=~"$job"}}[{_RATE}]))'
    return Panel(
        title=title,
        queries=tuple((f"histogram_quantile({share}, {buckets})", f"p{int(share * 100)}") for share in (0.5, 0.99)),
        unit=unit,
        says=says,
    )


ROWS: tuple[tuple[str, tuple[Panel, ...]], ...] = (
    (
        "Is every millisecond explained?",
        (
            _stat(
                "Unexplained time",
                'max(obol_unexplained_seconds{job=~"$job"})',
                "Anything but 0 is an alarm (B12).",
                "s",
                0,
            ),
            _stat("Windows with unexplained time", 'sum(obol_unexplained_windows{job=~"$job"})', "B12.", alarm_above=0),
            _stat(
                "Overbilled in 24 h",
                'sum(increase(obol_overbilled_seconds_total{job=~"$job"}[24h]))',
                "Closes that came with a time before what was billed (B10).",
                "s",
                0,
            ),
            _stat(
                "Dead letters in 24 h",
                'sum(increase(obol_records_dead_total{job=~"$job"}[24h]))',
                "See them with `obol dead list`.",
                alarm_above=0,
            ),
            _stat("Largest lag", 'max(obol_lag_seconds{job=~"$job"})', "Bills come this late.", "s", 120),
            _stat(
                "Partitions without their rows",
                'count(obol_partition_ready{job=~"$job"} == 0) or vector(0)',
                "They answer 503 until they are back.",
                alarm_above=0,
            ),
        ),
    ),
    (
        "What is billed",
        (
            Panel(
                title="Usage events",
                queries=((_rate("obol_usage_events_total", "meter"), "{{meter}}"),),
                says="Sent to Croesus, by meter (B4).",
                unit="ops",
                stacked=True,
            ),
            Panel(
                title="Windows by condition",
                queries=((_sum("obol_windows", "condition"), "{{condition}}"),),
                says="Windows that are not done; the conditions add up to all of them.",
                stacked=True,
            ),
            Panel(
                title="Where time stands",
                queries=((_sum("obol_window_seconds", "figure"), "{{figure}}"),),
                says="running = billed + pending + forgiven − overbilled (B12).",
                unit="s",
            ),
        ),
    ),
    (
        "The fleet",
        (
            Panel(title="Replicas", queries=((_sum("obol_replicas", "status"), "{{status}}"),), stacked=True),
            Panel(title="Instances", queries=((_sum("obol_instances", "state"), "{{state}}"),), stacked=True),
            Panel(
                title="Deployments and orgs",
                queries=((_sum("obol_deployments", "status"), "{{status}}"), ('sum(obol_orgs{job=~"$job"})', "orgs")),
            ),
        ),
    ),
    (
        "What comes in",
        (
            Panel(
                title="Records applied",
                queries=(
                    (_rate("obol_records_applied_total", "topic"), "{{topic}}"),
                    (f'sum(rate(obol_records_read_total{{job=~"$job"}}[{_RATE}]))', "read in all"),
                ),
                unit="ops",
            ),
            Panel(
                title="Records ignored",
                queries=((_rate("obol_records_ignored_total", "reason"), "{{reason}}"),),
                says="Good records that changed nothing.",
                unit="ops",
            ),
            Panel(
                title="Dead letters, prices refused",
                queries=(
                    (_rate("obol_records_dead_total", "reason"), "{{reason}}"),
                    (f'max(rate(obol_prices_refused_total{{job=~"$job"}}[{_RATE}]))', "price refused"),
                ),
                unit="ops",
            ),
            Panel(
                title="Duplicate, rerouted, out of order",
                queries=(
                    (_rate("obol_records_duplicate_total", "topic"), "duplicate {{topic}}"),
                    (_rate("obol_records_rerouted_total", "topic"), "rerouted {{topic}}"),
                    (_rate("obol_records_out_of_order_total", "topic"), "out of order {{topic}}"),
                ),
                unit="ops",
            ),
            Panel(
                title="Inference requests",
                queries=((f'sum(rate(obol_inference_requests_total{{job=~"$job"}}[{_RATE}]))', "requests"),),
                unit="reqps",
            ),
            Panel(
                title="Lag",
                queries=((_sum("obol_lag_records", "partition"), "partition {{partition}}"),),
                says="Records that wait.",
            ),
        ),
    ),
    (
        "The workers",
        (
            _quantiles("Commit time", "obol_commit_duration_seconds", "s", "One transaction."),
            _quantiles("Records a commit", "obol_commit_records", "short", "How large the batches are."),
            _quantiles("Rows a commit", "obol_commit_rows", "short", "Changed rows written."),
            _quantiles("Messages a commit", "obol_commit_messages", "short", "Outbound messages sent."),
            _quantiles(
                "Tick delay", "obol_tick_delay_seconds", "s", "From a tick's time to the commit of what it did."
            ),
            Panel(
                title="Since the last commit",
                queries=(('time() - obol_commit_last_success_timestamp_seconds{job=~"$job"}', "{{instance}}"),),
                unit="s",
            ),
            Panel(
                title="Restore progress",
                queries=(
                    (
                        f"{_sum('obol_restored_records', 'partition')} / {_sum('obol_restore_records', 'partition')}",
                        "partition {{partition}}",
                    ),
                ),
                unit="percentunit",
            ),
            Panel(
                title="Redis age",
                queries=(('obol_redis_age_seconds{job=~"$job"}', "{{instance}}"),),
                says="How old the read model is.",
                unit="s",
            ),
            Panel(
                title="Processor and memory",
                queries=(
                    (f'rate(process_cpu_seconds_total{{job=~"$job"}}[{_RATE}])', "processors {{instance}}"),
                    ('process_resident_memory_bytes{job=~"$job"} / 2^30', "GiB {{instance}}"),
                ),
            ),
        ),
    ),
)


def dashboard() -> Json:
    """The dashboard, as Grafana imports it."""
    return {
        "title": "Obol",
        "uid": "obol",
        "description": "Exact billing of GPU clouds: what is billed, what waits, and whether anything is unexplained.",
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "refresh": "30s",
        "tags": ["obol"],
        "time": {"from": "now-6h", "to": "now"},
        "timezone": "utc",
        "templating": {"list": [_source_variable(), _job_variable()]},
        "panels": _panels(),
    }


def _source_variable() -> Json:
    return {"name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus", "refresh": 1}


def _job_variable() -> Json:
    query = "label_values(obol_info, job)"
    return {
        "name": "job",
        "label": "Job",
        "type": "query",
        "datasource": _SOURCE,
        "definition": query,
        "query": {"query": query, "refId": "job"},
        "refresh": 2,
        "includeAll": True,
        "multi": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }


def _panels() -> list[Json]:
    """Rows under one another, panels from the left, wrapped where a row is full."""
    made: list[Json] = []
    top = 0
    for title, panels in ROWS:
        made.append({"type": "row", "title": title, "collapsed": False, "gridPos": _place(0, top, _COLUMNS, 1)})
        top += 1
        left = height = 0
        for panel in panels:
            if left + panel.width > _COLUMNS:
                top, left = top + height, 0
            made.append(_panel(panel, left, top))
            left, height = left + panel.width, panel.height
        top += height
    return [{"id": number, **panel} for number, panel in enumerate(made, start=1)]


def _panel(panel: Panel, left: int, top: int) -> Json:
    defaults: Json = {"unit": panel.unit, "min": 0}
    options: Json = {
        "legend": {"displayMode": "list", "placement": "bottom"},
        "tooltip": {"mode": "multi", "sort": "desc"},
    }
    if panel.kind == "stat":
        options = {"colorMode": "background", "graphMode": "none", "reduceOptions": {"calcs": ["lastNotNull"]}}
        defaults = {"unit": panel.unit, "noValue": "0", "thresholds": _thresholds(panel.alarm_above)}
    elif panel.stacked:
        defaults["custom"] = {"fillOpacity": 30, "stacking": {"mode": "normal"}}
    return {
        "type": panel.kind,
        "title": panel.title,
        "description": panel.says,
        "datasource": _SOURCE,
        "gridPos": _place(left, top, panel.width, panel.height),
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": options,
        "targets": [
            {"refId": chr(ord("A") + number), "datasource": _SOURCE, "expr": query, "legendFormat": legend}
            for number, (query, legend) in enumerate(panel.queries)
        ],
    }


def _thresholds(alarm_above: float | None) -> Json:
    steps: list[Json] = [{"color": "green", "value": None}]
    if alarm_above is not None:
        # Grafana colours from a value on: the least one above.
        steps.append({"color": "red", "value": alarm_above + 0.001})
    return {"mode": "absolute", "steps": steps}


def _place(left: int, top: int, width: int, height: int) -> Json:
    return {"x": left, "y": top, "w": width, "h": height}
