"""Instances through the engine without a broker: bytes in, bytes out, and the same bytes after any crash (B11)."""

import random
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from streams.replay.driver import ShardDriver
from tests.unit.rules.instance_world import HOUR, MINUTE, at

OUTBOUND = ("croesus.usage", "lifecycle.changes", "command.results", "host.orders", "execlet.orders", "dead.letters")


class Sent(NamedTuple):
    topic: str
    value: dict[str, Any]
    at_ms: int


def begun(partitions: int = 1) -> ShardDriver:
    driver = ShardDriver(partitions=partitions)
    driver.price("instance.a100.1x", "100", at("00:00"))
    driver.price("disk", "0.01", at("00:00"))
    return driver


def command(name: str, n: int, org_id: str, instance_id: str) -> dict[str, Any]:
    fields: dict[str, Any] = {"type": f"{name}_instance", "command_id": f"c{n}", "org_id": org_id}
    if name == "deploy":
        fields |= {"offer_id": "o", "gpu_type": "a100", "gpu_count": 1, "disk_gb": 100}
        fields |= {"template": {"mode": "ssh", "image": "base"}}
    return fields | {"instance_id": instance_id}


def report(name: str, n: int, org_id: str, instance_id: str) -> dict[str, Any]:
    return {"event_id": f"e{n}", "org_id": org_id, "instance_id": instance_id, "report": name}


def balance(amount: str, n: int, org_id: str) -> dict[str, Any]:
    return {"event_id": f"e{n}", "org_id": org_id, "type": "balance_updated", "balance": amount}


def test_a_life_on_the_wire() -> None:
    driver = begun()
    for topic, value, now in [
        ("croesus.accounts", balance("500", 1, "acme"), "11:00"),
        ("user.commands", command("deploy", 1, "acme", "i"), "12:00"),
        ("host.reports", report("workload_up", 2, "acme", "i"), "12:01:30.250"),
        ("user.commands", command("stop", 2, "acme", "i"), "12:01:45.500"),
        ("host.reports", report("stop_confirmed", 3, "acme", "i") | {"message": "bye"}, "12:01:50"),
    ]:
        driver.send(topic, value, at(now))
    driver.tick(at("12:02:02"))
    driver.run()
    assert driver.values("croesus.usage") == [
        {
            "id": "i:gpu:2026-11-29T12:01:30.250Z",
            "type": "instance_gpu_running",
            "org_id": "acme",
            "instance_id": "i",
            "window_id": "i.gpu.w1",
            "profile": "instance.a100.1x",
            "quantity": 1,
            "interval_start": "2026-11-29T12:01:30.250Z",
            "interval_end": "2026-11-29T12:01:45.500Z",
            "duration_ms": 15_250,
        },
        {
            "id": "i:disk:2026-11-29T12:01:50.000Z",
            "type": "instance_disk_stopped",
            "org_id": "acme",
            "instance_id": "i",
            "window_id": "i.disk.w1",
            "profile": "disk",
            "quantity": 100,
            "interval_start": "2026-11-29T12:01:50.000Z",
            "interval_end": "2026-11-29T12:02:00.000Z",
            "duration_ms": 10_000,
        },
    ]
    assert driver.values("host.orders") == [
        {"order_id": "i:create:1", "org_id": "acme", "instance_id": "i", "order": "create", "attempt": 1},
        {"order_id": "i:stop:1", "org_id": "acme", "instance_id": "i", "order": "stop", "attempt": 1},
    ]
    assert driver.values("lifecycle.changes")[:2] == [
        {
            "event_id": "instance:i:1",
            "org_id": "acme",
            "kind": "instance",
            "id": "i",
            "to": "creating",
            "reason": "deployed",
            "at": "2026-11-29T12:00:00.000Z",
        },
        {
            "event_id": "instance:i:2",
            "org_id": "acme",
            "kind": "instance",
            "id": "i",
            "from": "creating",
            "to": "running",
            "reason": "workload_up",
            "at": "2026-11-29T12:01:30.250Z",
        },
    ]
    assert {(record.key, record.timestamp) for record in driver.records("host.orders")} == {
        (b"acme", at("12:00")),
        (b"acme", at("12:01:45.500")),
    }


def test_an_error_tells_its_code_and_words_and_the_next_change_has_none() -> None:
    driver = begun()
    driver.send("croesus.accounts", balance("500", 1, "acme"), at("11:00"))
    driver.send("user.commands", command("deploy", 1, "acme", "i"), at("12:00"))
    failed = report("launch_failed", 2, "acme", "i") | {"message": "no such image", "reached_host": False}
    driver.send("host.reports", failed, at("12:01"))
    driver.tick(at("13:01"))
    driver.run()
    told = [
        (change["to"], change["reason"], change.get("error_code"), change.get("error_message"))
        for change in driver.values("lifecycle.changes")
    ]
    assert told == [
        ("creating", "deployed", None, None),
        ("error", "launch_failed", "launch_failed", "no such image"),
        ("destroying", "error_expired", None, None),
    ]
    assert [order["order"] for order in driver.values("host.orders")] == ["create", "destroy"]


REPORTS = ["workload_up"] * 6 + ["stop_confirmed"] * 4 + ["teardown_finished"] * 2
REPORTS += ["launch_failed", "start_refused", "workload_failed", "workload_lost", "workload_gone", "found_held"]
COMMANDS = ["deploy"] * 3 + ["start"] * 3 + ["stop"] * 3 + ["destroy"]


def part_of_a_day(seed: int) -> Iterator[Sent | int]:
    """Hours of six orgs, in the order of time; a number is a tick."""
    chance = random.Random(seed)
    orgs = [f"org-{n}" for n in range(6)]
    n = 0
    for org_id in orgs:
        n += 1
        yield Sent("croesus.accounts", balance("1000", n, org_id), at("11:59"))
    for minute in range(5 * HOUR // MINUTE):
        start = at("12:00") + minute * MINUTE
        for now in sorted(start + 2_001 + chance.randrange(57_000) for _ in range(6)):
            n += 1
            org_id, instance_id = chance.choice(orgs), f"i{chance.randrange(4)}"
            kind = chance.random()
            if kind < 0.35:
                yield Sent("user.commands", command(chance.choice(COMMANDS), n, org_id, instance_id), now)
            elif kind < 0.9:
                yield Sent("host.reports", report(chance.choice(REPORTS), n, org_id, instance_id), now)
            else:
                amount = chance.choice(["900", "305", "101", "0", "-20"])
                yield Sent("croesus.accounts", balance(amount, n, org_id), now)
        if chance.random() > 0.1:  # a tick that is missing: the next one bills for both
            yield start + MINUTE + 2_000


def write(driver: ShardDriver, sent: Sent | int) -> None:
    if isinstance(sent, int):
        driver.tick(sent)
    else:
        driver.send(sent.topic, sent.value, sent.at_ms)


@pytest.mark.parametrize("seed", range(4))
def test_crashes_leave_no_trace_in_what_goes_out(seed: int) -> None:
    steady, broken = begun(partitions=2), begun(partitions=2)
    for sent in part_of_a_day(seed):
        write(steady, sent)
    steady.run()

    chance = random.Random(seed + 1_000)
    for sent in part_of_a_day(seed):
        write(broken, sent)
        match chance.randrange(12):
            case 0 | 1:
                broken.feed(chance.randrange(1, 5))
            case 2 | 3:
                broken.feed()
                broken.step(chance.randrange(1, 20))
            case 4:
                broken.commit()
            case 5 if chance.random() < 0.3:
                broken.crash()
            case 6 if chance.random() < 0.3:
                broken.crash_in_commit()
            case _:
                pass
    broken.run()

    assert steady.count("ignored") > 0
    assert len(steady.records("croesus.usage")) > 500
    for topic in OUTBOUND:
        assert steady.records(topic) == broken.records(topic), topic
    for table in ("orgs", "instances", "windows", "answers", "events"):
        assert steady.rows(table).keys() == broken.rows(table).keys()
