"""A recorded mixed day: the outputs are, byte for byte, those of earlier versions."""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from random import Random
from typing import TYPE_CHECKING, get_args

import pytest

from schemas.credits import CreditReason
from schemas.dead_letters import DeadLetterReason
from schemas.notices import NoticeKind
from schemas.results import ResultCode
from schemas.usage import UsageType
from streams.engine import shard
from streams.lifecycle.deployment import DeploymentStatus
from streams.lifecycle.instance import InstanceState, Order
from streams.lifecycle.replica import FailReason, ReplicaStatus
from streams.replay.driver import LogRecord, ShardDriver
from tests.unit.replay import mixed_day
from topics.catalogue import (
    CHANGES,
    CREDITS,
    DEAD_LETTERS,
    EXECLET_ORDERS,
    HOST_ORDERS,
    NOTICES,
    OUTBOUND,
    RESULTS,
    USAGE,
)

if TYPE_CHECKING:
    from tests.unit.replay.mixed_day import Input

RECORDED = {
    "croesus.usage": (62091, "45015b36851cd04bf70beda7399c516f89a6bec694e5c68a134ab59a1df93e45"),
    "croesus.credits": (975, "ed4b139413dbb8a41d63cc6edef3bb2c964323923961d13940840574eec910ad"),
    "org.notices": (1302, "f45ea7ccad6cdcefe01ffe681b5c280da4062039e5aed9fc1363d54a96ab7813"),
    "lifecycle.changes": (8100, "5b24098280878e55f71cc3b8921cb3a29bf1ad16d2c9768ccccfc5da62f87583"),
    "command.results": (6875, "8eb4c3b1e5085339bb465b84b44c6a30f0b4ec4e0d70a69551e31a6a4e920ab7"),
    "execlet.orders": (2335, "d840addd677889d6ed6a8744ef142282da6d168ba47c3d7de2faed1ce5ab0493"),
    "host.orders": (20794, "2d213ed4c61e56cfb597c038ebb40f612c2fab37b4bea597a097c0d970ac451b"),
    "dead.letters": (8156, "fce26314aa8de296eafc456193b96c14eb3326428ca468727d68b9945d41de59"),
}
"""By outbound topic: how many records, and the SHA-256 of them all."""

COUNTED = {
    "applied croesus.accounts": 4671,
    "applied execlet.heartbeats": 14900,
    "applied execlet.progress": 1562,
    "applied host.reports": 1945,
    "applied inference.requests": 179,
    "applied obol.clock": 5569,
    "applied operator.commands": 1202,
    "applied user.commands": 3912,
    "credited_ms dedicated": 35384003,
    "credited_ms disk": 9326708,
    "credited_ms gpu": 8655688,
    "dead invalid": 3313,
    "dead too_large": 84,
    "dead undecodable": 924,
    "dead unknown_deployment": 84,
    "dead unknown_instance": 1411,
    "dead unknown_replica": 2340,
    "duplicate croesus.accounts": 55,
    "duplicate execlet.progress": 102,
    "duplicate host.reports": 85,
    "duplicate operator.commands": 646,
    "duplicate user.commands": 1115,
    "ignored already_there": 614,
    "ignored backwards": 52,
    "ignored clock_disagrees": 21,
    "ignored not_running": 499,
    "ignored old_epoch": 40,
    "ignored old_sequence": 412,
    "ignored out_of_place": 566,
    "ignored says_nothing": 79,
    "ignored terminal": 4986,
    "inference_requests count": 3318,
    "notices auto_destroy_ahead": 21,
    "notices balance_empty": 1121,
    "notices runway_low": 160,
    "old_epoch balance_updated": 40,
    "out_of_order croesus.accounts": 392,
    "out_of_order execlet.heartbeats": 274,
    "out_of_order execlet.progress": 249,
    "out_of_order host.reports": 263,
    "out_of_order inference.requests": 35,
    "out_of_order obol.clock": 262,
    "out_of_order operator.commands": 98,
    "out_of_order user.commands": 197,
    "overbilled_ms dedicated": 26327111,
    "overbilled_ms disk": 3606752,
    "overbilled_ms gpu": 3241875,
    "read croesus.accounts": 6542,
    "read execlet.heartbeats": 22485,
    "read execlet.progress": 3027,
    "read host.reports": 5080,
    "read inference.requests": 864,
    "read obol.clock": 5613,
    "read operator.commands": 2345,
    "read user.commands": 5553,
    "rerouted croesus.accounts": 16,
    "rerouted execlet.heartbeats": 87,
    "rerouted execlet.progress": 6,
    "rerouted host.reports": 11,
    "rerouted inference.requests": 1,
    "rerouted operator.commands": 4,
    "rerouted user.commands": 16,
    "usage dedicated": 15261,
    "usage disk": 37250,
    "usage gpu": 9580,
}
"""The counts, by kind and detail."""


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
    """Apply a part of the queued records, commit a part of that, and restart from what was committed."""
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
        # Separately, so that their offsets do not depend on the times of commits.
        driver.run()
        for record in minute.placed:
            send(driver, record)
        if number % 180 == 179:
            restart(driver, rng)
        driver.run()
    return driver


def test_the_outputs_are_those_recorded() -> None:
    driver = after_the_day()
    found = {spec.name: (len(driver.records(spec.name)), digest(driver.records(spec.name))) for spec in OUTBOUND}
    assert found == RECORDED


def test_the_counts_are_those_recorded() -> None:
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
        *("balance_empty", "balance_debt", "error_expired", "stop_timed_out", "start_timed_out", "create_timed_out"),
        *("workload_up", "launch_failed", "stop_confirmed", "start_refused", "start_unreachable", "gpus_unavailable"),
        *("workload_failed", "workload_lost", "workload_completed", "workload_gone", "found_running", "found_held"),
        "teardown_finished",
    }
    assert {letter["reason"] for letter in driver.values(DEAD_LETTERS.name)} == set(get_args(DeadLetterReason))
    assert {result.get("code") for result in driver.values(RESULTS.name)} == {None, *get_args(ResultCode)}
    for topic in (USAGE, CREDITS):
        assert {event["type"] for event in driver.values(topic.name)} == set(get_args(UsageType))
        assert {"labels" in event for event in driver.values(topic.name)} == {True, False}
    assert {credit["reason"] for credit in driver.values(CREDITS.name)} == set(get_args(CreditReason))
    assert {notice["kind"] for notice in driver.values(NOTICES.name)} == set(get_args(NoticeKind))
    assert {order["order"] for order in driver.values(EXECLET_ORDERS.name)} == {"submit_job", "abort_job"}
    assert {order["order"] for order in driver.values(HOST_ORDERS.name)} == set(Order)
    assert len({change["id"] for change in changes if change["kind"] == "deployment"}) >= 500
    assert len({change["org_id"] for change in changes if change["kind"] == "instance"}) >= 300
