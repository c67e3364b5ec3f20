"""The switches (B20 to B23) on a real worker, set in the environment."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from schemas.times import parse_rfc3339, rfc3339
from streams.settings import EXIT_WRONG_SETTING
from tests.support.workers import Installation, Sent, Worker
from topics.catalogue import CHANGES, DEAD_LETTERS, EXECLET_ORDERS, HOST_ORDERS, PRICES, RESULTS, USAGE

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.kafka

OFF = {"DEDICATED_BILLING_ENABLED": ""}
DRY = {"DEDICATED_BILLING_DRY_RUN": "1"}
PROFILE = "dedicated.h100.1x"
NOISE = re.compile(r"dry run: would (send|stop)")


def at(clock: str) -> int:
    """Convert `12:30` or `12:30:15` to ms on the test's day."""
    return parse_rfc3339(f"2026-01-15T{clock if clock.count(':') == 2 else f'{clock}:00'}.000Z")


class Log:
    """What is written to an installation's inputs, in order."""

    def __init__(self, installation: Installation) -> None:
        self._installation = installation
        self._records: list[Sent] = []
        self._number = 0

    def price(self, clock: str, profile: str = PROFILE) -> None:
        value = json.dumps({"profile": profile, "price": "60", "currency": "JPY"}).encode()
        self._records.append(Sent(PRICES.name, at(clock), profile.encode(), value, 0))

    def tell(self, clock: str, topic: str, org: str, **fields: Any) -> None:
        self._number += 1
        kind = {"user.commands": "command_id", "execlet.heartbeats": None}.get(topic, "event_id")
        ids = {} if kind is None else {kind: f"e{self._number}"}
        value = json.dumps({"org_id": org, **ids, **fields}).encode()
        self._records.append(Sent(topic, at(clock), org.encode(), value, self._installation.place(topic, org)))

    def running(self, clock: str, org: str, deployment: str) -> None:
        """Add a deployment with one replica, healthy from then on."""
        create = {"type": "create_deployment", "model": "llama", "gpu_type": "h100", "gpu_count": 1}
        self.tell(clock, "user.commands", org, deployment_id=deployment, **create)
        self.tell(clock, "execlet.progress", org, replica_id=f"{deployment}-r1", status="RUNNING", message="healthy")

    def minute(self, clock: str, *beating: tuple[str, str]) -> None:
        """Add a heartbeat of each (org, replica) at the minute, and a tick two seconds after it."""
        for org, replica in beating:
            self.tell(clock, "execlet.heartbeats", org, replica_id=replica)
        for partition in range(self._installation.partitions):
            self._records.append(Sent("obol.clock", at(f"{clock}:02"), None, b'{"type":"tick"}', partition))

    async def play(self, worker: Worker) -> None:
        """Write the records, and wait until `worker` has committed all of them."""
        records, self._records = self._records, []
        await self._installation.send(records)
        await self._installation.wait_until_caught_up([worker])


@pytest.fixture
async def installation(kafka_bootstrap: str, namespace: str) -> Installation:
    made = Installation(kafka_bootstrap, namespace)
    await made.provision()
    return made


async def bodies(installation: Installation, topic: str) -> list[dict[str, Any]]:
    return [json.loads(record.value or b"") for record in await installation.read(topic)]


def lines(worker: Worker, words: str) -> Iterator[dict[str, str]]:
    """Yield the fields of each log line that has exactly the message `words`."""
    for line in worker.log.read_text().splitlines():
        _, found, fields = line.rstrip().partition(f"] {words}: ")
        if found:
            yield dict(re.findall(r"(\w+)=(.*?)(?:, (?=\w+=)|$)", fields))


@pytest.mark.parametrize(
    ("croesus_host", "words"),
    [
        ("", "CROESUS_HOST is unset while DEDICATED_BILLING_ENABLED is on; set it to the Croesus cluster's address"),
        ("croesus.invalid:9092", "CROESUS_HOST is croesus.invalid:9092, which is not in KAFKA_BOOTSTRAP_SERVERS ({})"),
    ],
    ids=["unset", "elsewhere"],
)
async def test_billing_without_its_cluster_is_refused(kafka_bootstrap: str, croesus_host: str, words: str) -> None:
    """B20: the worker ends before anything starts, with one line that names the variable and the fix."""
    installation = Installation(kafka_bootstrap, "never-made", environ={"CROESUS_HOST": croesus_host})
    with Worker(installation) as worker:
        assert worker.wait() == EXIT_WRONG_SETTING
        said = worker.log.read_text().splitlines()
    assert len(said) == 1, said
    assert words.format(kafka_bootstrap) in said[0]


async def test_dry_run_without_billing_does_nothing_and_is_logged(installation: Installation) -> None:
    """B20, B21: nothing is sent, nothing is logged as if it might be, a suspended org's deployments go on."""
    log = Log(installation)
    log.price("11:59")
    log.running("12:00", "acme", "chat")
    log.running("12:00", "lapsed", "bot")
    log.tell("12:01", "croesus.accounts", "lapsed", type="org_suspended")
    for minute in range(1, 6):
        log.minute(f"12:{minute:02}", ("acme", "chat-r1"), ("lapsed", "bot-r1"))
    with Worker(installation, **OFF, **DRY) as worker:
        await log.play(worker)
        said = worker.log.read_text()
        assert worker.stop() == 0
    warned = [line for line in said.splitlines() if "DEDICATED_BILLING_DRY_RUN does nothing" in line]
    assert len(warned) == 1
    assert "set DEDICATED_BILLING_ENABLED=1 as well" in warned[0]
    assert "WARNING" in warned[0]
    assert not NOISE.search(said)
    assert await bodies(installation, USAGE.name) == []
    changes = await bodies(installation, CHANGES.name)
    assert {(change["id"], change["to"]) for change in changes} == {
        *(("chat", "created"), ("chat-r1", "pending"), ("chat-r1", "running")),
        *(("bot", "created"), ("bot-r1", "pending"), ("bot-r1", "running")),
    }


async def test_ten_minutes_of_dry_run_are_billed_once_it_is_off(installation: Installation) -> None:
    """B21, B22: ten ticks are logged and nothing is sent; then each minute is billed once, and the suspension counts.

    Both replicas are healthy at 12:00 and send a heartbeat each minute; the org `lapsed` is suspended at 12:05. The
    worker in dry-run mode applies the ticks of 12:01 to 12:10, the next one that of 12:11.
    """
    beating = (("acme", "chat-r1"), ("lapsed", "bot-r1"))
    log = Log(installation)
    log.price("11:59")
    log.running("12:00", "acme", "chat")
    log.running("12:00", "lapsed", "bot")
    for minute in range(1, 11):
        if minute == 5:
            log.tell("12:05", "croesus.accounts", "lapsed", type="org_suspended")
        log.minute(f"12:{minute:02}", *beating)
    with Worker(installation, **DRY) as worker:
        await log.play(worker)
        assert worker.stop() == 0
        would_send = list(lines(worker, "dry run: would send"))
        would_stop = list(lines(worker, "dry run: would stop the deployments of a suspended org"))
    # The next event stays the first one for all that time, as `billed_until` stays.
    for org, replica in beating:
        assert [fields for fields in would_send if fields["org_id"] == org] == 10 * [
            {
                "org_id": org,
                "window_id": f"{replica}.w1",
                "profile": PROFILE,
                "quantity": "1",
                "interval_start": "2026-01-15T12:00:00.000Z",
                "interval_end": "2026-01-15T12:01:00.000Z",
                "duration_ms": "60000",
            }
        ]
    assert len(would_send) == 20
    # The ticks of 12:05 to 12:10.
    assert would_stop == 6 * [{"org_id": "lapsed", "deployments": "bot"}]
    assert await bodies(installation, USAGE.name) == []
    assert {change["to"] for change in await bodies(installation, CHANGES.name)} == {"created", "pending", "running"}
    assert {order["order"] for order in await bodies(installation, EXECLET_ORDERS.name)} == {"submit_job"}

    log.minute("12:11", *beating)
    with Worker(installation) as worker:
        await log.play(worker)
        assert worker.stop() == 0
        assert not NOISE.search(worker.log.read_text())
    usage = await bodies(installation, USAGE.name)
    minutes = [at(f"12:{minute:02}") for minute in range(12)]
    pieces = list(pairwise(minutes))
    billed = {
        (event["org_id"], event["id"], event["interval_start"], event["interval_end"], event["duration_ms"])
        for event in usage
    }
    assert len(usage) == len(billed)
    assert billed == {
        *(("acme", f"chat-r1:{rfc3339(a)}", rfc3339(a), rfc3339(b), 60_000) for a, b in pieces),
        *(("lapsed", f"bot-r1:{rfc3339(a)}", rfc3339(a), rfc3339(b), 60_000) for a, b in pieces),
        # Stopped by the tick itself, before billing (B22): up to that moment, to the millisecond.
        ("lapsed", f"bot-r1:{rfc3339(minutes[11])}", rfc3339(minutes[11]), rfc3339(at("12:11:02")), 2_000),
    }
    stopped = [change for change in await bodies(installation, CHANGES.name) if change["to"] == "stopped"]
    assert [(change["kind"], change["id"], change["reason"], change["at"]) for change in stopped] == [
        ("deployment", "bot", "org_suspended", "2026-01-15T12:11:02.000Z"),
        ("replica", "bot-r1", "org_suspended", "2026-01-15T12:11:02.000Z"),
    ]
    aborted = [order for order in await bodies(installation, EXECLET_ORDERS.name) if order["order"] == "abort_job"]
    assert [(order["order_id"], order["org_id"]) for order in aborted] == [("bot-r1:abort_job", "lapsed")]


async def test_switches_leave_instances_alone(installation: Installation) -> None:
    """B23: with billing off an instance is billed from `workload_up` on, and B22's refusals hold as they always do."""
    log = Log(installation)
    log.price("11:00", "instance.a100.1x")
    log.price("11:00", "disk")
    deploy: dict[str, Any] = {"type": "deploy_instance", "offer_id": "o", "gpu_type": "a100", "gpu_count": 1}
    deploy |= {"disk_gb": 1, "template": {"mode": "ssh", "image": "base"}}
    log.tell("11:30", "croesus.accounts", "acme", type="balance_updated", balance="1000")
    log.tell("11:59", "user.commands", "acme", instance_id="vm", **deploy)
    log.tell("12:00", "host.reports", "acme", instance_id="vm", report="workload_up")
    log.tell("12:00:30", "croesus.accounts", "acme", type="org_suspended")
    log.tell("12:00:40", "user.commands", "acme", instance_id="vm2", **deploy)
    log.minute("12:02")
    with Worker(installation, **OFF, **DRY) as worker:
        await log.play(worker)
        assert worker.stop() == 0
    assert [event["id"] for event in await bodies(installation, USAGE.name)] == [
        "vm:gpu:2026-01-15T12:00:00.000Z",
        "vm:gpu:2026-01-15T12:01:00.000Z",
    ]
    results = await bodies(installation, RESULTS.name)
    assert [(result["target"], result["outcome"], result.get("code")) for result in results] == [
        ("vm", "accepted", None),
        ("vm2", "rejected", "ORG_SUSPENDED"),
    ]
    assert [order["order_id"] for order in await bodies(installation, HOST_ORDERS.name)] == ["vm:create:1"]
    assert await bodies(installation, DEAD_LETTERS.name) == []
