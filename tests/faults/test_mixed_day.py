"""B11 for the mixed day: kills change nothing of its credits, notices, labels, late signs and silent clock."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import pytest

from tests.faults.fault_run import (
    Event,
    FaultRun,
    bodies,
    first_difference,
    published,
    reference_output,
    run_undisturbed,
    two_installations,
    write_log_to_both,
)
from tests.support.workers import Sent
from tests.unit.replay import mixed_day
from topics.catalogue import CHANGES, CREDITS, EXECLET_ORDERS, NOTICES, PRICES, USAGE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.workers import Installation

pytestmark = [pytest.mark.kafka, pytest.mark.faults]

SEED = 20261130
HOUR_MS = 3_600_000
EVENTS: list[Event] = [
    "kill one",
    "kill all",
    "kill its replacement",
    "two for one",
    "kill one",
    "leave",
]


async def test_kills_do_not_change_the_mixed_day(
    kafka_bootstrap: str, namespace: str, log_progress: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    now_ms = int(time.time() * 1000)
    monkeypatch.setattr(mixed_day, "START_MS", now_ms // HOUR_MS * HOUR_MS - 30 * HOUR_MS)
    reference, disturbed = two_installations(
        kafka_bootstrap, namespace, mixed_day.PARTITIONS, {"OBOL_RETENTION_H": "3"}
    )
    await write_log_to_both(reference, disturbed, list(day(reference, now_ms)), log_progress)
    await run_undisturbed(reference, "--without-web")
    expected = await reference_output(reference, log_progress)
    await FaultRun(disturbed, SEED, EVENTS, log_progress, flags=("--without-web",)).execute()
    difference = first_difference(expected, await published(disturbed))
    assert difference is None, difference

    # The day had what the other days lack: otherwise the comparison would prove little.
    assert {credit["reason"] for credit in bodies(expected, CREDITS.name)} == {"closed_late", "operator"}
    assert {notice["kind"] for notice in bodies(expected, NOTICES.name)} == {
        *("runway_low", "balance_empty", "auto_destroy_ahead")
    }
    assert any("labels" in usage for usage in bodies(expected, USAGE.name))
    assert any(change["reason"] == "found_held" for change in bodies(expected, CHANGES.name))
    aborts = [order["order_id"] for order in bodies(expected, EXECLET_ORDERS.name) if order["order"] == "abort_job"]
    assert max(int(order_id.rpartition(":")[2]) for order_id in aborts if order_id[-1].isdigit()) > 1, "no zombies"


def day(installation: Installation, now_ms: int) -> Iterator[Sent]:
    """Yield the records of the mixed day that a broker accepts, each in its org's partition.

    A misplaced record is left out: where it is published again depends on when the commits come.
    """
    for minute in mixed_day.day():
        for record in minute.placed:
            if 0 <= record.at_ms <= now_ms:
                partition = record.partition
                if partition is None:
                    org_id = "" if record.topic == PRICES.name else json.loads(record.value or b"{}")["org_id"]
                    partition = installation.place(record.topic, org_id)
                yield Sent(record.topic, record.at_ms, record.key, record.value, partition)
