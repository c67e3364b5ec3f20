"""B11 with real processes: kills, a clean stop and rebalances do not change the output."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from sim.fleet import timeline
from tests.faults.fault_run import Event, FaultRun, bodies, check_unchanged, two_installations
from topics.catalogue import USAGE

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [pytest.mark.kafka, pytest.mark.faults]

SEED = 20261129
ORGS, REPLICAS, INSTANCES, HOURS, PARTITIONS = 40, 2_000, 40, 2.0, 4
DUPLICATES, LATE, INVALID_SHARE = 0.05, 0.02, 0.0005
MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
EVENTS: list[Event] = [
    "kill one",
    "kill one",
    "kill all",
    "kill its replacement",
    "kill one",
    "kill one",
    "kill one",
    "two for one",
    "leave",
]


async def test_kills_and_rebalances_do_not_change_the_output(
    kafka_bootstrap: str, namespace: str, log_progress: Callable[[str], None]
) -> None:
    start_ms = int(time.time() * 1000) // MINUTE_MS * MINUTE_MS - 4 * HOUR_MS
    reference, disturbed = two_installations(kafka_bootstrap, namespace, PARTITIONS)
    fleet = timeline(
        SEED,
        ORGS,
        REPLICAS,
        start_ms,
        HOURS,
        instances=INSTANCES,
        partitions=PARTITIONS,
        duplicates=DUPLICATES,
        late=LATE,
    )
    run = FaultRun(disturbed, SEED, EVENTS, log_progress, flags=("--without-web",))
    outcome = await check_unchanged(run, reference, fleet, INVALID_SHARE)
    assert len(bodies(outcome, USAGE.name)) > 100_000
