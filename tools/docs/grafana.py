"""The Grafana dashboard: billing first, then the state of the workers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from schemas.base import Json

_COLUMNS = 24
_SOURCE = {"type": "prometheus", "uid": "${source}"}
_RATE = "$__rate_interval"


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """A panel. `queries`: PromQL with its legend. `width`, `height`: in cells of Grafana's grid."""

    title: str
    queries: tuple[tuple[str, str], ...]
    description: str = ""
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


def _stat(title: str, query: str, description: str, unit: str = "short", alarm_above: float | None = None) -> Panel:
    return Panel(
        title=title,
        queries=((query, ""),),
        description=description,
        unit=unit,
        kind="stat",
        width=4,
        height=4,
        alarm_above=alarm_above,
    )


def _quantiles(title: str, metric: str, unit: str, description: str) -> Panel:
    buckets = f'sum by (le) (rate({metric}_bucket{{job=~"$job"}}[{_RATE}]))'
    return Panel(
        title=title,
        queries=tuple((f"histogram_quantile({share}, {buckets})", f"p{int(share * 100)}") for share in (0.5, 0.99)),
        unit=unit,
        description=description,
    )


ROWS: tuple[tuple[str, tuple[Panel, ...]], ...] = (
    (
        "Billing checks",
        (
            _stat(
                "Unexplained time",
                'max(obol_unexplained_seconds{job=~"$job"})',
                "Anything but 0 is an alarm (B12).",
                "s",
                0,
            ),
            _stat(
                "Windows with unexplained time",
                'sum(obol_unexplained_windows{job=~"$job"})',
                "They violate conservation (B12).",
                alarm_above=0,
            ),
            _stat(
                "Overbilled in 24 h",
                'sum(increase(obol_overbilled_seconds_total{job=~"$job"}[24h]))',
                "Time billed beyond the end of windows (B10).",
                "s",
                0,
            ),
            _stat(
                "Dead letters in 24 h",
                'sum(increase(obol_records_dead_total{job=~"$job"}[24h]))',
                "List them with `obol dead list`.",
                alarm_above=0,
            ),
            _stat("Largest lag", 'max(obol_lag_seconds{job=~"$job"})', "Usage events are late by this much.", "s", 120),
            _stat(
                "Partitions restoring",
                'count(obol_partition_ready{job=~"$job"} == 0) or vector(0)',
                "Their views return 503 until they are restored.",
                alarm_above=0,
            ),
        ),
    ),
    (
        "Usage",
        (
            Panel(
                title="Usage events",
                queries=((_rate("obol_usage_events_total", "meter"), "{{meter}}"),),
                description="Sent to Croesus, by meter (B4).",
                unit="ops",
                stacked=True,
            ),
            Panel(
                title="Credits",
                queries=((_rate("obol_credited_seconds_total", "meter"), "{{meter}}"),),
                description="Time credited per second, by meter (B13).",
                stacked=True,
            ),
            Panel(
                title="Notices",
                queries=(
                    (_rate("obol_notices_total", "kind"), "{{kind}}"),
                    (_rate("obol_old_epoch_updates_total", "type"), "ignored for an old epoch: {{type}}"),
                ),
                description="Sent to orgs (N1), and balance updates ignored for an epoch that is over (C3).",
                unit="ops",
            ),
            Panel(
                title="Windows by condition",
                queries=((_sum("obol_windows", "condition"), "{{condition}}"),),
                description="Each unfinished window has one condition.",
                stacked=True,
            ),
            Panel(
                title="Time of windows",
                queries=((_sum("obol_window_seconds", "figure"), "{{figure}}"),),
                description="running = billed + pending + forgiven − overbilled (B12).",
                unit="s",
            ),
        ),
    ),
    (
        "Fleet",
        (
            Panel(title="Replicas", queries=((_sum("obol_replicas", "status"), "{{status}}"),), stacked=True),
            Panel(title="Instances", queries=((_sum("obol_instances", "state"), "{{state}}"),), stacked=True),
            Panel(
                title="Ended, but still sending signs of life",
                queries=((_sum("obol_zombies", "kind"), "{{kind}}"),),
                description="They get the order to end again (R6, I4).",
            ),
            Panel(
                title="Deployments and orgs",
                queries=((_sum("obol_deployments", "status"), "{{status}}"), ('sum(obol_orgs{job=~"$job"})', "orgs")),
            ),
        ),
    ),
    (
        "Inputs",
        (
            Panel(
                title="Records applied",
                queries=(
                    (_rate("obol_records_applied_total", "topic"), "{{topic}}"),
                    (f'sum(rate(obol_records_read_total{{job=~"$job"}}[{_RATE}]))', "read in total"),
                ),
                unit="ops",
            ),
            Panel(
                title="Records ignored",
                queries=((_rate("obol_records_ignored_total", "reason"), "{{reason}}"),),
                description="Valid records that changed nothing.",
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
                title="Blocked partitions, open transactions, lost records, resets, disagreements",
                queries=(
                    ('max(obol_partition_blocked{job=~"$job"}) by (partition)', "blocked {{partition}}"),
                    ('max(obol_open_transactions{job=~"$job"})', "open transactions"),
                    (_rate("obol_records_lost_total", "topic"), "lost {{topic}}"),
                    (_rate("obol_input_resets_total", "topic"), "reset {{topic}}"),
                    ('max(obol_settings_disagreements{job=~"$job"})', "disagreements"),
                ),
                description="Anything but 0 needs an operator: docs/operations.md.",
                unit="short",
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
                description="Records not applied yet.",
            ),
        ),
    ),
    (
        "Workers",
        (
            _quantiles("Commit duration", "obol_commit_duration_seconds", "s", "Of one transaction."),
            _quantiles("Records per commit", "obol_commit_records", "short", "Records applied in one transaction."),
            _quantiles("Rows per commit", "obol_commit_rows", "short", "Rows written in one transaction."),
            _quantiles("Messages per commit", "obol_commit_messages", "short", "Messages written in one transaction."),
            _quantiles("Tick delay", "obol_tick_delay_seconds", "s", "From a tick's timestamp to its commit."),
            Panel(
                title="Time since the last commit",
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
                description="Age of the Redis read model.",
                unit="s",
            ),
            Panel(
                title="Redis malformed",
                queries=((f'rate(obol_redis_malformed_total{{job=~"$job"}}[{_RATE}])', "{{instance}}"),),
                description="Lookups that found a malformed read model: another program writes to its keys.",
            ),
            Panel(
                title="CPU and memory",
                queries=(
                    (f'rate(process_cpu_seconds_total{{job=~"$job"}}[{_RATE}])', "CPU cores {{instance}}"),
                    ('process_resident_memory_bytes{job=~"$job"} / 2^30', "GiB {{instance}}"),
                ),
            ),
        ),
    ),
)


def dashboard() -> Json:
    """Return the dashboard in Grafana's import format."""
    return {
        "title": "Obol",
        "uid": "obol",
        "description": "Billing of GPU clouds: usage, inputs, workers, and alarms.",
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
    """Place the panels of each row from left to right, and wrap full rows."""
    placed: list[Json] = []
    top = 0
    for title, panels in ROWS:
        placed.append({"type": "row", "title": title, "collapsed": False, "gridPos": _place(0, top, _COLUMNS, 1)})
        top += 1
        left = height = 0
        for panel in panels:
            if left + panel.width > _COLUMNS:
                top, left = top + height, 0
            placed.append(_panel(panel, left, top))
            left, height = left + panel.width, panel.height
        top += height
    return [{"id": number, **panel} for number, panel in enumerate(placed, start=1)]


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
        "description": panel.description,
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
        # Grafana colours values from the threshold on, so the threshold is just above the limit.
        steps.append({"color": "red", "value": alarm_above + 0.001})
    return {"mode": "absolute", "steps": steps}


def _place(left: int, top: int, width: int, height: int) -> Json:
    return {"x": left, "y": top, "w": width, "h": height}
