"""Why a minute was charged, and why another was not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from streams.rules.context import Switches
from streams.web.lookup import Found
from tests.unit.web.support import FakeCluster, at, serving, utc
from tests.unit.web.test_json import dead_node

if TYPE_CHECKING:
    from tests.unit.web.support import Serving


class KnownRecords:
    """Stands in for Kafka: usage events and ticks that a test names, by id and by time."""

    def __init__(self, usage: dict[str, Found], ticks: dict[int, Found]) -> None:
        self.sent = usage
        self.ticks = ticks

    async def usage(self, partition: int, usage_id: str, not_before_ms: int) -> Found | None:
        found = self.sent.get(usage_id)
        return (
            found if found is not None and found.partition == partition and found.timestamp >= not_before_ms else None
        )

    async def tick(self, partition: int, at_ms: int) -> Found | None:
        found = self.ticks.get(at_ms)
        return found if found is not None and found.partition == partition else None

    async def changes(self, partition: int, entity: str, org_id: str, made: int, since_ms: int) -> list[Found]:  # noqa: ARG002
        return []


async def explain(worker: Serving, usage_id: str) -> dict[str, object]:
    got = await worker.get(f"/orgs/acme/explain/{usage_id}")
    assert got.status == 200, got.text
    found: dict[str, object] = got.json
    return found


async def test_a_charge_names_every_record_it_comes_from() -> None:
    world = dead_node()
    partition = world.shard_of("acme").partition
    usage_id = f"chat-r1:{utc('12:31')}"
    event = Found("croesus.usage", partition, 77, at("13:31"), b"")
    tick = Found("obol.clock", partition, 90, at("13:31"), b"")
    async with serving(world, lookup=KnownRecords({usage_id: event}, {at("13:31"): tick})) as (worker,):
        got = await explain(worker, usage_id)
        assert got["charged"] is True
        assert got["reason"] is None
        assert got["event_id"] == usage_id
        assert (got["interval_start"], got["interval_end"], got["duration_ms"]) == (
            utc("12:31"),
            utc("12:31:30"),
            30_000,
        )
        assert got["opened_by"] == {
            "topic": "execlet.progress",
            "partition": partition,
            "offset": 0,
            "timestamp": utc("12:00"),
        }
        assert got["closed_by"] == {
            "topic": "execlet.progress",
            "partition": partition,
            "offset": 1,
            "timestamp": utc("13:30"),
        }
        assert got["last_heartbeat"] == {"at": utc("12:30"), "bounds_until": utc("12:31:30")}
        assert got["usage"] == {
            "topic": "croesus.usage",
            "partition": partition,
            "offset": 77,
            "timestamp": utc("13:31"),
        }
        assert got["sent_by"] == {
            "topic": "obol.clock",
            "partition": partition,
            "offset": 90,
            "timestamp": utc("13:31"),
        }
        price = got["price"]
        assert isinstance(price, dict)
        assert (price["price"], price["currency"], price["unit"], price["since"]) == (
            "360",
            "JPY",
            "per hour",
            utc("11:00"),
        )
        assert got["as_of"] == utc("13:31")


@pytest.mark.parametrize(
    ("clock", "charged", "reason", "start", "end"),
    [
        ("12:00", True, None, "12:00", "12:01"),
        ("12:00:30", True, None, "12:00", "12:01"),
        ("12:31:29.999", True, None, "12:31", "12:31:30"),
        ("12:31:30", False, "forgiven", "12:31:30", "12:32"),
        ("13:29", False, "forgiven", "13:29", "13:30"),
        ("13:30", False, "not_running", "13:30", "13:31"),
        ("11:59", False, "not_running", "11:59", "12:00"),
        ("13:31:30", False, "not_due", "13:31", "13:32"),
    ],
)
async def test_every_minute_of_the_dead_node(
    *, clock: str, charged: bool, reason: str | None, start: str, end: str
) -> None:
    async with serving(dead_node()) as (worker,):
        got = await explain(worker, f"chat-r1:{utc(clock)}")
        assert (got["charged"], got["reason"]) == (charged, reason)
        assert (got["interval_start"], got["interval_end"]) == (utc(start), utc(end))
        assert got["detail"]


async def test_every_event_that_was_sent_is_explained_as_charged_with_its_own_interval() -> None:
    """B8's 32 events, by hand: 31 whole minutes from 12:00 on, then 30 s."""
    async with serving(dead_node()) as (worker,):
        for minute in range(32):
            start = f"12:{minute:02}"
            got = await explain(worker, f"chat-r1:{utc(start)}")
            assert got["charged"] is True
            assert got["event_id"] == f"chat-r1:{utc(start)}"
            assert got["duration_ms"] == (30_000 if minute == 31 else 60_000)


@pytest.mark.parametrize(
    ("switches", "price", "held"),
    [
        (Switches(), "360", "billing_off"),
        (Switches(billing_enabled=True, dry_run=True), "360", "dry_run"),
        (Switches(billing_enabled=True), None, "unpriced"),
    ],
)
async def test_a_minute_that_is_held(switches: Switches, price: str | None, held: str) -> None:
    world = FakeCluster(switches=switches)
    world.price("11:00", "dedicated.h100.1x", "360")
    world.deploy("12:00", "acme", "chat")
    world.healthy("12:00", "acme", "chat-r1")
    world.price("12:00:01", "dedicated.h100.1x", price)
    world.tick("12:02")
    async with serving(world) as (worker,):
        got = await explain(worker, f"chat-r1:{utc('12:00')}")
        assert (got["charged"], got["reason"], got["held"]) == (False, "held", held)


async def test_a_pause_a_catch_up_and_a_minute_that_is_still_open() -> None:
    """Last heartbeat 12:01: billed to 12:02, then paused (B7); a heartbeat at 12:10 and a tick bill it all."""
    world = FakeCluster()
    world.price("11:00", "dedicated.h100.1x", "360")
    world.deploy("12:00", "acme", "chat")
    world.healthy("12:00", "acme", "chat-r1")
    world.heartbeat("12:01", "acme", "chat-r1")
    world.ticks("12:01", "12:09")
    async with serving(world) as (worker,):
        assert (await explain(worker, f"chat-r1:{utc('12:01')}"))["charged"] is True
        paused = await explain(worker, f"chat-r1:{utc('12:02')}")
        assert (paused["reason"], paused["held"]) == ("paused", "no_heartbeat")
        world.heartbeat("12:10", "acme", "chat-r1")
        assert (await explain(worker, f"chat-r1:{utc('12:02')}"))["reason"] == "not_due"
        world.tick("12:10")
        assert (await explain(worker, f"chat-r1:{utc('12:02')}"))["charged"] is True
        assert (await explain(worker, f"chat-r1:{utc('12:10')}"))["reason"] == "not_due"


async def test_what_an_instance_owed_was_sent_by_the_change_that_settled_it() -> None:
    world = FakeCluster()
    world.price("11:00", "instance.a100.2x", "500")
    world.price("11:00", "disk", "0.5")
    world.balance("12:00", "acme", "5000")
    world.rent("12:00", "acme", "box")
    world.report("12:02:10", "acme", "box", "workload_up")
    world.command("12:02:40", "acme", type="stop_instance", instance_id="box")
    world.report("12:03", "acme", "box", "stop_confirmed")
    world.tick("12:05")
    partition = world.shard_of("acme").partition
    gpu = f"box:gpu:{utc('12:02:10')}"
    event = Found("croesus.usage", partition, 3, at("12:02:40"), b"")
    async with serving(world, lookup=KnownRecords({gpu: event}, {})) as (worker,):
        got = await explain(worker, gpu)
        assert (got["charged"], got["duration_ms"], got["last_heartbeat"]) == (True, 30_000, None)
        sent_by = got["sent_by"]
        assert isinstance(sent_by, dict)
        assert (sent_by["topic"], sent_by["timestamp"]) == ("user.commands", utc("12:02:40"))
        disk = await explain(worker, f"box:disk:{utc('12:04')}")
        assert (disk["charged"], disk["quantity"]) == (True, 100)
        assert [charge["price"]["unit"] for charge in (got, disk)] == ["per hour", "per GB per hour"]  # type: ignore[index]
        assert (await explain(worker, f"box:gpu:{utc('12:04')}"))["reason"] == "not_running"
        assert (await explain(worker, f"box:disk:{utc('12:02:10')}"))["reason"] == "not_running"


async def test_serverless_is_never_charged() -> None:
    world = FakeCluster()
    world.deploy("12:00", "acme", "chat", serving="serverless")
    world.healthy("12:00", "acme", "chat-r1")
    world.tick("12:05")
    async with serving(world) as (worker,):
        assert (await explain(worker, f"chat-r1:{utc('12:01')}"))["reason"] == "serverless"


@pytest.mark.parametrize(
    "usage_id", ["chat-r1", "chat-r1:12:00", "chat-r1:ram:2026-11-29T12:00:00.000Z", "x:2026-13-29T12:00:00.000Z"]
)
async def test_the_problem_of_a_malformed_usage_id_describes_one(usage_id: str) -> None:
    async with serving(dead_node()) as (worker,):
        got = await worker.get(f"/orgs/acme/explain/{usage_id}")
        assert got.status == 400
        assert "<replica_id>:<interval_start>" in got.json["detail"]
