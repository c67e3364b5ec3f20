"""A recorded mixed day: everything that goes out is, byte for byte, what went out before."""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from random import Random
from typing import TYPE_CHECKING, get_args

import pytest

from schemas.dead_letters import DeadLetterReason
from schemas.results import ResultCode
from streams.engine import shard
from streams.lifecycle.deployment import DeploymentStatus
from streams.lifecycle.instance import InstanceState, Order
from streams.lifecycle.replica import FailReason, ReplicaStatus
from streams.replay.driver import LogRecord, ShardDriver
from tests.unit.replay import mixed_day
from topics.catalogue import CHANGES, DEAD_LETTERS, EXECLET_ORDERS, HOST_ORDERS, OUTBOUND, RESULTS, USAGE

if TYPE_CHECKING:
    from tests.unit.replay.mixed_day import Input

RECORDED = {
    "croesus.usage": (64393, "676504346f2efac144a313c76591dfae2b4d26bbc757d1f582867400e6790465"),
    "lifecycle.changes": (8345, "f7876a1b0228947021add68f5bbc74d322e1f37a796abe7a3ce375c1644984fd"),
    "command.results": (5037, "6bddd9d9e0ce6852c22b0b619dc3ee5d8dbba48d42bd0741dd142e29ff351338"),
    "execlet.orders": (1766, "03cdc3bf4c3db2b5075054936d28c8135400709abe0502250606740737db3ea1"),
    "host.orders": (16422, "018bcdcc5073078e9a7e042ac79f021920a32a57c8732c2e0f8a47aa1dfcefbf"),
    "dead.letters": (7562, "69c10c8023851a2cac4d8c2f09d1cf15501f633caebf487a3e8cedff4db40cad"),
}
"""By outbound topic: how many records, and the SHA-256 of them all."""

COUNTED = {
    "applied croesus.accounts": 4696,
    "applied execlet.heartbeats": 15479,
    "applied execlet.progress": 1627,
    "applied host.reports": 1979,
    "applied inference.requests": 202,
    "applied obol.clock": 5948,
    "applied user.commands": 3919,
    "dead invalid": 2965,
    "dead too_large": 72,
    "dead undecodable": 792,
    "dead unknown_deployment": 90,
    "dead unknown_instance": 1391,
    "dead unknown_replica": 2252,
    "duplicate croesus.accounts": 55,
    "duplicate execlet.progress": 104,
    "duplicate host.reports": 84,
    "duplicate user.commands": 1118,
    "ignored already_there": 621,
    "ignored backwards": 58,
    "ignored not_running": 212,
    "ignored old_sequence": 427,
    "ignored out_of_place": 605,
    "ignored says_nothing": 59,
    "ignored terminal": 1948,
    "inference_requests count": 3325,
    "out_of_order croesus.accounts": 2889,
    "out_of_order execlet.heartbeats": 595,
    "out_of_order execlet.progress": 1513,
    "out_of_order host.reports": 2156,
    "out_of_order inference.requests": 549,
    "out_of_order obol.clock": 2068,
    "out_of_order user.commands": 2748,
    "overbilled_ms dedicated": 20469310,
    "overbilled_ms disk": 4248507,
    "overbilled_ms gpu": 3648494,
    "read croesus.accounts": 6543,
    "read execlet.heartbeats": 19781,
    "read execlet.progress": 2989,
    "read host.reports": 5088,
    "read inference.requests": 896,
    "read obol.clock": 5972,
    "read user.commands": 5561,
    "rerouted croesus.accounts": 17,
    "rerouted execlet.heartbeats": 58,
    "rerouted execlet.progress": 15,
    "rerouted host.reports": 19,
    "rerouted inference.requests": 4,
    "rerouted user.commands": 14,
    "usage dedicated": 16031,
    "usage disk": 38733,
    "usage gpu": 9629,
}
"""What was counted besides, by kind and detail."""


def digest(records: list[LogRecord]) -> str:
    """The SHA-256 over partition, key, value, timestamp and headers of each record, each part after its length."""
    sha = sha256()
    for record in records:
        parts = [b"%d" % record.partition, b"%d" % record.timestamp, record.key, record.value]
        for name, value in record.headers:
            parts += [name.encode(), value]
        for part in parts:
            sha.update(b"-" if part is None else b"%d:%b" % (len(part), part))
        sha.update(b";")
    return sha.hexdigest()


def send(driver: ShardDriver, record: Input) -> None:
    driver.send(record.topic, record.value, record.at_ms, record.key, record.partition, record.headers)


def restart(driver: ShardDriver, rng: Random) -> None:
    """Apply a part of what waits, commit a part of that, and start again from what was committed."""
    driver.feed(rng.randrange(1, 40))
    driver.step(rng.randrange(1, 30))
    driver.commit([rng.randrange(mixed_day.PARTITIONS)])
    driver.step(rng.randrange(1, 30))
    if rng.random() < 0.5:
        driver.crash()
    else:
        driver.crash_in_commit()


@cache
def after_the_day() -> ShardDriver:
    with pytest.MonkeyPatch.context() as patch:
        # The check of every row would take minutes; tests with fewer rows have it.
        patch.setattr(shard, "ENABLED", False)
        return lived_through()


def lived_through() -> ShardDriver:
    driver = ShardDriver(partitions=mixed_day.PARTITIONS, retention_h=3)
    rng = Random(mixed_day.SEED)
    for number, minute in enumerate(mixed_day.day()):
        for record in minute.misplaced:
            send(driver, record)
        # By themselves, so that where they land does not depend on when commits come.
        driver.run()
        for record in minute.placed:
            send(driver, record)
        if number % 180 == 179:
            restart(driver, rng)
        driver.run()
    return driver


def test_all_that_goes_out_is_what_was_recorded() -> None:
    driver = after_the_day()
    found = {spec.name: (len(driver.records(spec.name)), digest(driver.records(spec.name))) for spec in OUTBOUND}
    assert found == RECORDED


def test_what_is_counted_is_what_was_recorded() -> None:
    assert {f"{kind} {detail}": count for (kind, detail), count in after_the_day().counts().items()} == COUNTED


def test_the_day_is_a_mixed_one() -> None:
    driver = after_the_day()
    changes = driver.values(CHANGES.name)
    reached = {
        kind: {change["to"] for change in changes if change["kind"] == kind}
        for kind in ("deployment", "replica", "instance")
    }
    assert reached == {
        "deployment": set(DeploymentStatus),
        "replica": set(ReplicaStatus),
        "instance": set(InstanceState),
    }
    assert {change["reason"] for change in changes} >= {
        *("deployed", "progress", "user", "idle", "request", "scaler", "org_suspended", "replicas_failed", *FailReason),
        *("balance_empty", "balance_debt", "error_expired", "stop_timed_out", "start_timed_out"),
        *("workload_up", "launch_failed", "stop_confirmed", "start_refused", "start_unreachable", "gpus_unavailable"),
        *("workload_failed", "workload_lost", "workload_completed", "workload_gone", "found_running", "found_held"),
        "teardown_finished",
    }
    assert {letter["reason"] for letter in driver.values(DEAD_LETTERS.name)} == set(get_args(DeadLetterReason))
    assert {result.get("code") for result in driver.values(RESULTS.name)} == {None, *get_args(ResultCode)}
    assert {event["type"] for event in driver.values(USAGE.name)} == {
        *("dedicated_inference_running", "instance_gpu_running", "instance_disk_stopped"),
    }
    assert {order["order"] for order in driver.values(EXECLET_ORDERS.name)} == {"submit_job", "abort_job"}
    assert {order["order"] for order in driver.values(HOST_ORDERS.name)} == set(Order)
    assert len({change["id"] for change in changes if change["kind"] == "deployment"}) >= 500
    assert len({change["org_id"] for change in changes if change["kind"] == "instance"}) >= 300
