"""Every number of the rules, its unit in its name, with the rule it comes from.

Bounds of single fields stand with the types in `schemas/ids.py`. "A limit of time" means "at or after".
"""

from typing import Final

from schemas.base import MAX_DEPTH, MAX_VALUE_BYTES

__all__ = [
    "DAY_MS",
    "DEBT_LIMIT",
    "DEBT_MS",
    "DEDUPE_MS",
    "ERROR_EXPIRY_MS",
    "HEARTBEAT_GRACE_MS",
    "HOUR_MS",
    "HOUR_S",
    "MAX_DEPTH",
    "MAX_EVENTS_PER_WINDOW_PER_RECORD",
    "MAX_INSTANCES",
    "MAX_VALUE_BYTES",
    "MINUTE_MS",
    "MIN_FIRST_REPLICAS",
    "SECOND_MS",
    "START_TIMEOUT_MS",
    "STOP_TIMEOUT_MS",
]

SECOND_MS: Final = 1_000
MINUTE_MS: Final = 60 * SECOND_MS
HOUR_MS: Final = 60 * MINUTE_MS
DAY_MS: Final = 24 * HOUR_MS
HOUR_S: Final = HOUR_MS // SECOND_MS

HEARTBEAT_GRACE_MS: Final = 90 * SECOND_MS
"""B3: how long after the last heartbeat a dedicated window is still billed."""

MAX_EVENTS_PER_WINDOW_PER_RECORD: Final = 60
"""B5: usage events that one applied record may send for one window; the rest follow at the next ticks."""

MIN_FIRST_REPLICAS: Final = 1
"""P2, P7: a deployment that is created or woken gets at least this many replicas."""

STOP_TIMEOUT_MS: Final = 30 * MINUTE_MS
"""I1: a stop not confirmed for this long puts the instance back to running, `stop_timed_out`."""

START_TIMEOUT_MS: Final = 30 * MINUTE_MS
"""I1: a start without `workload_up` for this long puts the instance back to stopped, `start_timed_out`."""

MAX_INSTANCES: Final = 25
"""I5: instances of one org that are not destroyed."""

DEBT_MS: Final = DAY_MS
"""I8: how long a balance must have been 0 or less without a break before stopped instances are destroyed."""

DEBT_LIMIT: Final = -35
"""I8: the balance, in whole units of the currency, at or below which that happens."""

ERROR_EXPIRY_MS: Final = HOUR_MS
"""I9: how long an instance whose workload ended, or that never ran, stays in error."""

DEDUPE_MS: Final = DAY_MS
"""C1, C4: how long a `command_id` and an `event_id` are remembered, from their first time on."""
