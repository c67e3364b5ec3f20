"""Every metric that is read off the partitions, in one table: its name, its unit, and what it says."""

from dataclasses import dataclass
from typing import Final

PARTITION: Final = "partition"


@dataclass(frozen=True, slots=True)
class Family:
    """A metric as Prometheus sees it; `labels` come after the partition."""

    name: str
    help: str
    labels: tuple[str, ...] = ()
    per: float = 1

    @property
    def all_labels(self) -> tuple[str, ...]:
        """Label names in order."""
        return (PARTITION, *self.labels)


COUNTERS: Final[dict[str, Family]] = {
    "read": Family(
        "obol_records_read", "Records taken in: applied, ignored, duplicate, dead or rerouted ones.", ("topic",)
    ),
    "applied": Family("obol_records_applied", "Records that did what they are for.", ("topic",)),
    "ignored": Family("obol_records_ignored", "Good records that changed nothing.", ("reason",)),
    "dead": Family("obol_records_dead", "Records that became dead letters.", ("reason",)),
    "duplicate": Family("obol_records_duplicate", "Commands and events that had come before (C1, C4).", ("topic",)),
    "rerouted": Family("obol_records_rerouted", "Records published again to their org's partition.", ("topic",)),
    "out_of_order": Family(
        "obol_records_out_of_order", "Records applied after one that follows them (B11).", ("topic",)
    ),
    "usage": Family("obol_usage_events", "Usage events sent to Croesus (B4).", ("meter",)),
    "overbilled_ms": Family(
        "obol_overbilled_seconds", "Time billed beyond a window's end, at its close (B10).", ("meter",), per=1_000
    ),
    "inference_requests": Family("obol_inference_requests", "Inference requests that deployments were asked to serve."),
}
"""Counters by the first half of their key in `Shard.counters`; the second half is the label's value."""

LAG_RECORDS: Final = Family("obol_lag_records", "Records that wait in the partition's inbound topics.")
LAG_SECONDS: Final = Family(
    "obol_lag_seconds", "How far the partition's time is behind the newest record that waits.", per=1_000
)
RESTORED_RECORDS: Final = Family("obol_restored_records", "Changelog records read back since the partition came.")
RESTORE_RECORDS: Final = Family("obol_restore_records", "Changelog records to read back in all.")
READY: Final = Family("obol_partition_ready", "1 when the partition has its rows and answers, else 0.")

WINDOWS: Final = Family(
    "obol_windows",
    "Windows that are not done, by condition: open, paused without heartbeats (B7), held (B9, B20, B21), or closed "
    "with something left to bill (B5).",
    ("condition",),
)
WINDOW_SECONDS: Final = Family(
    "obol_window_seconds",
    "Time of all windows kept, by what became of it (B12).",
    ("figure",),
    per=1_000,
)
UNEXPLAINED_SECONDS: Final = Family(
    "obol_unexplained_seconds",
    "Time that conservation leaves over, signs dropped: anything but 0 is an alarm (B12).",
    per=1_000,
)
UNEXPLAINED_WINDOWS: Final = Family("obol_unexplained_windows", "Windows with unexplained time: an alarm (B12).")
DEPLOYMENTS: Final = Family("obol_deployments", "Deployments kept, by status (P1).", ("status",))
REPLICAS: Final = Family("obol_replicas", "Replicas kept, by status (R1).", ("status",))
INSTANCES: Final = Family("obol_instances", "Instances kept, by state (I1).", ("state",))
ORGS: Final = Family("obol_orgs", "Orgs heard of.")

GAUGES: Final = (
    LAG_RECORDS,
    LAG_SECONDS,
    RESTORED_RECORDS,
    RESTORE_RECORDS,
    READY,
    WINDOWS,
    WINDOW_SECONDS,
    UNEXPLAINED_SECONDS,
    UNEXPLAINED_WINDOWS,
    DEPLOYMENTS,
    REPLICAS,
    INSTANCES,
    ORGS,
)
