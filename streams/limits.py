"""Every number of the rules, its unit in its name, with the rule it comes from.

Bounds of single fields are with the types in `schemas/ids.py`. "A limit of time" means "at or after".
"""

from typing import Final

from schemas.base import MAX_DEPTH, MAX_VALUE_BYTES

__all__ = [
    "CREATE_TIMEOUT_MS",
    "DAY_MS",
    "DEBT_LIMIT",
    "DEBT_MS",
    "DEDUPE_MS",
    "DESTROY_NOTICE_AHEAD_MS",
    "ERROR_EXPIRY_MS",
    "HEARTBEAT_GRACE_MS",
    "HOUR_MS",
    "HOUR_S",
    "MAX_CLOCK_DIFFERENCE_MS",
    "MAX_CREDITS_PER_WINDOW_PER_RECORD",
    "MAX_DEPTH",
    "MAX_EVENTS_PER_WINDOW_PER_RECORD",
    "MAX_INSTANCES",
    "MAX_NOTICES_SHOWN",
    "MAX_RESULTS_WITH_REASON",
    "MAX_VALUE_BYTES",
    "MINUTE_MS",
    "MIN_FIRST_REPLICAS",
    "RUNWAY_NOTICE_INTERVAL_MS",
    "RUNWAY_THRESHOLDS_S",
    "SECOND_MS",
    "START_TIMEOUT_MS",
    "STOP_TIMEOUT_MS",
    "ZOMBIE_ABORT_INTERVAL_MS",
    "ZOMBIE_AFTER_MS",
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
"""P2, P7: a deployment that is created or resumed gets at least this many replicas."""

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

CREATE_TIMEOUT_MS: Final = 6 * HOUR_MS
"""I1: a create without a report that moves it for this long puts the instance into error, `create_timed_out`."""

MAX_CREDITS_PER_WINDOW_PER_RECORD: Final = 60
"""B13: credits that one applied record may send for one window; the rest follow at the next ticks."""

ZOMBIE_AFTER_MS: Final = 90 * SECOND_MS
"""R6: from how long after its end a replica that still sends signs of life is sent `abort_job` again."""

ZOMBIE_ABORT_INTERVAL_MS: Final = 10 * MINUTE_MS
"""R6: the least time between two such `abort_job` orders of a replica."""

MAX_CLOCK_DIFFERENCE_MS: Final = 5 * MINUTE_MS
"""Contract, `obol.clock`: a tick whose timestamp is more than this from its writer's clock is void."""

RUNWAY_THRESHOLDS_S: Final = (86_400, 3_600)
"""N1: runways below which an org gets a notice, the higher one first."""

MAX_RESULTS_WITH_REASON: Final = 10_000
"""C1: beyond so many remembered results of an org, `INVALID` has no reason, so that many of them cost little memory."""

RUNWAY_NOTICE_INTERVAL_MS: Final = 6 * HOUR_MS
"""N1: the least time between two notices of one threshold, unless the balance was raised in between."""

DESTROY_NOTICE_AHEAD_MS: Final = HOUR_MS
"""N1: how long before I8's 24 h are over the notice may be sent; I8: how long after it nothing is destroyed."""

MAX_NOTICES_SHOWN: Final = 20
"""Notices that an org's row keeps for its page; all of them are in `org.notices`."""
