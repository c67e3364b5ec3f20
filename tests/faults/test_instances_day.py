"""A mixed day of 300 orgs with instances on a real broker, undisturbed, and with kills and rebalances: same bytes."""

from __future__ import annotations

import heapq
import time
from collections import Counter
from operator import attrgetter
from typing import TYPE_CHECKING

import pytest

from sim.fleet import timeline
from sim.records import Record, balance, deploy_instance, destroy_instance, report
from tests.faults.fault_run import Event, FaultRun, Published, bodies, check_unchanged, two_installations
from topics.catalogue import CHANGES, DEAD_LETTERS, HOST_ORDERS, RESULTS, USAGE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = [pytest.mark.kafka, pytest.mark.faults]

SEED = 20261201
ORGS, INSTANCES, DEPLOYMENTS, REPLICAS, PARTITIONS = 300, 600, 60, 300, 4
DEBTORS = 6
HOURS = 26.0
"""I8 takes 24 h."""
HEARTBEAT_S = 60
DUPLICATES, LATE, INVALID_SHARE = 0.05, 0.02, 0.001
RETENTION_H = 3
"""Short, so that rows expire, and reports arrive after that, while workers are killed (C5)."""
MINUTE_MS, HOUR_MS = 60_000, 3_600_000
EVENTS: list[Event] = [
    "kill all",
    "kill one",
    "kill all",
    "kill all",
    "two for one",
    "kill the third",
    "two for one",
    "leave",
]
"""While a worker starts, the others go on; so the events that take longest come last."""


def debtors(start_ms: int) -> Iterator[Record]:
    """Yield the records of orgs with an empty balance for 24 h; every second is in debt, so I8 applies.

    Each also has a destroyed instance that is reported as running after its row has expired (C5).
    """
    for n in range(DEBTORS):
        org, vm, brief, at = f"debtor-{n}", f"debt-{n}", f"brief-{n}", start_ms + n * 7_001
        owes = "-35" if n % 2 else "-34.99"
        yield balance(at, org, "1000", 1)
        yield deploy_instance(at + 1_000, org, vm, "rtx4090.1x", 40)
        yield deploy_instance(at + 2_000, org, brief, "rtx4090.1x", 40)
        yield report(at + 60_000, org, vm, 1, "workload_up")
        yield destroy_instance(at + 70_000, org, brief)
        yield report(at + 80_000, org, brief, 1, "teardown_finished")
        yield balance(at + 120_500, org, owes, 2)
        yield report(at + 150_000, org, vm, 2, "stop_confirmed")
        yield report(at + (RETENTION_H + 1) * HOUR_MS, org, brief, 2, "found_running")
        yield report(at + 25 * HOUR_MS, org, vm, 3, "teardown_finished")


async def test_a_day_of_instances(kafka_bootstrap: str, namespace: str, log_progress: Callable[[str], None]) -> None:
    start_ms = int(time.time() * 1000) // MINUTE_MS * MINUTE_MS - 30 * HOUR_MS
    environ = {"OBOL_RETENTION_H": str(RETENTION_H)}
    reference, disturbed = two_installations(kafka_bootstrap, namespace, PARTITIONS, environ)
    fleet = timeline(
        SEED,
        ORGS,
        REPLICAS,
        start_ms,
        HOURS,
        deployments=DEPLOYMENTS,
        instances=INSTANCES,
        partitions=PARTITIONS,
        heartbeat_s=HEARTBEAT_S,
        duplicates=DUPLICATES,
        late=LATE,
    )
    debts = sorted(debtors(start_ms), key=attrgetter("timestamp_ms"))
    merged = heapq.merge(fleet, debts, key=attrgetter("timestamp_ms"))

    run = FaultRun(disturbed, SEED, EVENTS, log_progress, flags=("--without-web",))
    check_mixed(await check_unchanged(run, reference, merged, INVALID_SHARE))


def check_mixed(outcome: Published) -> None:
    """Check that the day had every kind of record: otherwise the comparison would prove little."""
    changes = [change for change in bodies(outcome, CHANGES.name) if change["kind"] == "instance"]
    assert {change["reason"] for change in changes} >= {
        *("deployed", "user", "balance_empty", "balance_debt", "error_expired", "stop_timed_out", "start_timed_out"),
        *("workload_up", "launch_failed", "stop_confirmed", "start_refused", "start_unreachable", "gpus_unavailable"),
        *("workload_failed", "workload_lost", "workload_completed", "workload_gone", "found_running"),
        "teardown_finished",
    }
    destroyed = {change["id"] for change in changes if change["reason"] == "balance_debt"}
    assert destroyed == {f"debt-{n}" for n in range(DEBTORS) if n % 2}
    orders = bodies(outcome, HOST_ORDERS.name)
    assert {order["order"] for order in orders} == {"create", "start", "stop", "destroy", "release_gpus"}
    assert max(order["attempt"] for order in orders) > 3
    topped_up = {change["org_id"] for change in changes if change["reason"] == "balance_empty"}
    assert topped_up & {change["org_id"] for change in changes if change["to"] == "running" and "from" in change}
    dead = Counter(letter["reason"] for letter in bodies(outcome, DEAD_LETTERS.name))
    assert set(dead) == {
        *("undecodable", "invalid", "too_large", "unknown_replica", "unknown_deployment", "unknown_instance"),
    }
    assert dead["unknown_instance"] >= DEBTORS
    codes = {result.get("code") for result in bodies(outcome, RESULTS.name)}
    assert codes >= {None, "INVALID", "ILLEGAL_TRANSITION", "NOT_FOUND", "INSUFFICIENT_BALANCE"}
    assert {event["type"] for event in bodies(outcome, USAGE.name)} == {
        *("dedicated_inference_running", "instance_gpu_running", "instance_disk_stopped"),
    }
