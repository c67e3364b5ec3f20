"""The metrics of partitions: names, units and documentation."""

from dataclasses import dataclass
from typing import Final

PARTITION: Final = "partition"


@dataclass(frozen=True, slots=True)
class Family:
    """A metric. `labels`: in addition to the partition. `per`: the value is divided by it, to get the metric's unit."""

    name: str
    help: str
    labels: tuple[str, ...] = ()
    per: float = 1

    @property
    def all_labels(self) -> tuple[str, ...]:
        """All label names, in order."""
        return (PARTITION, *self.labels)


COUNTERS: Final[dict[str, Family]] = {
    "read": Family(
        "obol_records_read", "Records processed: applied, ignored, duplicate, dead or rerouted.", ("topic",)
    ),
    "applied": Family("obol_records_applied", "Records that had their effect.", ("topic",)),
    "ignored": Family("obol_records_ignored", "Valid records that changed nothing.", ("reason",)),
    "dead": Family("obol_records_dead", "Records that became dead letters.", ("reason",)),
    "duplicate": Family(
        "obol_records_duplicate", "Commands and events whose id was applied before (C1, C4).", ("topic",)
    ),
    "rerouted": Family("obol_records_rerouted", "Records published again to their org's partition.", ("topic",)),
    "out_of_order": Family(
        "obol_records_out_of_order", "Records applied after one that comes later in the merge order (B11).", ("topic",)
    ),
    "lost": Family(
        "obol_records_lost", "Offsets of inputs that were deleted before they were read: not 0 is an alarm.", ("topic",)
    ),
    "resets": Family("obol_input_resets", "Inputs accepted as made again or truncated (accept-reset).", ("topic",)),
    "usage": Family("obol_usage_events", "Usage events sent to Croesus (B4).", ("meter",)),
    "overbilled_ms": Family(
        "obol_overbilled_seconds", "Time that was billed beyond a window's end (B10).", ("meter",), per=1_000
    ),
    "credited_ms": Family("obol_credited_seconds", "Time that was credited (B13).", ("meter",), per=1_000),
    "notices": Family("obol_notices", "Notices sent to orgs (N1).", ("kind",)),
    "old_epoch": Family("obol_old_epoch_updates", "Balance updates ignored for an epoch that is over (C3).", ("type",)),
    "inference_requests": Family("obol_inference_requests", "Inference requests to deployments."),
}
"""Counters by the first part of their key in `ShardView.counters`; the second part is the label's value."""

LAG_RECORDS: Final = Family("obol_lag_records", "Records of the partition's inputs that are not applied yet.")
LAG_SECONDS: Final = Family(
    "obol_lag_seconds", "How far the partition's time is behind the newest record that is not applied yet.", per=1_000
)
RESTORED_RECORDS: Final = Family(
    "obol_restored_records", "Changelog records restored since the partition was assigned."
)
RESTORE_RECORDS: Final = Family("obol_restore_records", "Changelog records to restore in total.")
READY: Final = Family("obol_partition_ready", "1 if the partition is restored, else 0.")
BLOCKED: Final = Family(
    "obol_partition_blocked",
    "1 if a record of the partition's inputs can't be read, or a topic refuses its commits, else 0: not 0 is an alarm.",
)

WINDOWS: Final = Family(
    "obol_windows",
    "Unfinished windows by condition: open, paused without heartbeats (B7), held (B9, B20, B21), or closed with time "
    "left to bill (B5).",
    ("condition",),
)
WINDOW_SECONDS: Final = Family(
    "obol_window_seconds",
    "Time of all windows in the tables: running, billed, pending, forgiven and overbilled (B12).",
    ("figure",),
    per=1_000,
)
UNEXPLAINED_SECONDS: Final = Family(
    "obol_unexplained_seconds",
    "Sum of the windows' absolute differences from conservation: anything but 0 is an alarm (B12).",
    per=1_000,
)
UNEXPLAINED_WINDOWS: Final = Family(
    "obol_unexplained_windows", "Windows that violate conservation: anything but 0 is an alarm (B12)."
)
DEPLOYMENTS: Final = Family("obol_deployments", "Deployments in the table, by status (P1).", ("status",))
REPLICAS: Final = Family("obol_replicas", "Replicas in the table, by status (R1).", ("status",))
INSTANCES: Final = Family("obol_instances", "Instances in the table, by state (I1).", ("state",))
ZOMBIES: Final = Family(
    "obol_zombies",
    "Replicas and instances that are still sending signs of life, though they have ended (R6, I4).",
    ("kind",),
)
ORGS: Final = Family("obol_orgs", "Orgs in the table.")

GAUGES: Final = (
    LAG_RECORDS,
    LAG_SECONDS,
    RESTORED_RECORDS,
    RESTORE_RECORDS,
    READY,
    BLOCKED,
    WINDOWS,
    WINDOW_SECONDS,
    UNEXPLAINED_SECONDS,
    ZOMBIES,
    UNEXPLAINED_WINDOWS,
    DEPLOYMENTS,
    REPLICAS,
    INSTANCES,
    ORGS,
)
