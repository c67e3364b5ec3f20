"""B11 with real processes: kills, a clean stop and rebalances in mid-work change nothing of what comes out."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from sim.fleet import timeline
from tests.faults.upheaval import Event, Upheaval, bodies, calm_and_rough, unchanged_by
from topics.catalogue import USAGE

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [pytest.mark.kafka, pytest.mark.faults]

SEED = 20261129
ORGS, REPLICAS, INSTANCES, HOURS, PARTITIONS = 40, 2_000, 40, 2.0, 4
DUPLICATES, LATE, REFUSE = 0.05, 0.02, 0.0005
MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
EVENTS: list[Event] = [
    "kill one",
    "kill one",
    "kill all",
    "kill its heir",
    "kill one",
    "kill one",
    "kill one",
    "two for one",
    "leave",
]


async def test_kills_and_rebalances_change_nothing_of_what_comes_out(
    kafka_bootstrap: str, namespace: str, tell: Callable[[str], None]
) -> None:
    start_ms = int(time.time() * 1000) // MINUTE_MS * MINUTE_MS - 4 * HOUR_MS
    calm, rough = calm_and_rough(kafka_bootstrap, namespace, PARTITIONS)
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
    upheaval = Upheaval(rough, SEED, EVENTS, tell, flags=("--without-web",))
    outcome = await unchanged_by(upheaval, calm, fleet, REFUSE)
    assert len(bodies(outcome, USAGE.name)) > 100_000
