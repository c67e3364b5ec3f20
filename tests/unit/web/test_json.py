"""Every path, with exactly the contract's fields, against books that the real rules filled."""

from __future__ import annotations

import pytest

from streams.web import site
from streams.web.pages import Pages
from tests.support.contract import DEPLOYMENT, INSTANCE, ORG, REPLICA, WINDOW
from tests.support.rows import damage
from tests.unit.web.support import FakeCluster, at, serving, utc

AS_OF = {"as_of"}


def dead_node() -> FakeCluster:
    """B8: running 12:00, last heartbeat 12:30, failed 13:30."""
    world = FakeCluster()
    world.price("11:00", "dedicated.h100.1x", "360")
    world.deploy("11:59", "acme", "chat")
    world.healthy("12:00", "acme", "chat-r1")
    for minute in range(1, 31):
        world.heartbeat(f"12:{minute:02}", "acme", "chat-r1")
        world.tick(f"12:{minute:02}")
    world.ticks("12:31", "13:29")
    world.progress("13:30", "acme", "chat-r1", "VM_CRASH")
    world.tick("13:31")
    return world


async def test_the_dead_node_of_b8() -> None:
    async with serving(dead_node()) as (worker,):
        got = await worker.get("/orgs/acme/replicas/chat-r1")
        assert got.status == 200
        assert set(got.json) >= REPLICA | AS_OF
        assert got.json["status"] == "failed"
        assert got.json["fail_reason"] == "container_crashed"
        assert got.json["last_health_check"] == utc("12:30")
        assert got.json["as_of"] == utc("13:31")
        (window,) = got.json["windows"]
        assert set(window) >= WINDOW
        assert {name: window[name] for name in sorted(WINDOW)} == {
            "window_id": "chat-r1.w1",
            "profile": "dedicated.h100.1x",
            "quantity": 1,
            "opened_at": utc("12:00"),
            "ended_at": utc("13:30"),
            "last_health_check": utc("12:30"),
            "billed_until": utc("13:30"),
            "running_ms": 5_400_000,
            "billed_ms": 1_890_000,
            "pending_ms": 0,
            "forgiven_ms": 3_510_000,
            "overbilled_ms": 0,
            "credit_pending_ms": 0,
            "credited_ms": 0,
            "held": None,
        }
        assert window["unexplained_ms"] == 0
        assert (await worker.get("/orgs/acme/windows/chat-r1.w1")).json == window | {
            "as_of": utc("13:31"),
            "owner_id": "chat-r1",
            "deployment_id": "chat",
        }


async def test_a_deployment_and_its_replicas() -> None:
    world = FakeCluster()
    world.price("11:00", "dedicated.h100.2x", "100")
    world.deploy("12:00", "acme", "chat", min_replicas=2, gpu_count=2)
    world.healthy("12:01", "acme", "chat-r2")
    async with serving(world) as (worker,):
        got = (await worker.get("/orgs/acme/deployments/chat")).json
        assert set(got) >= DEPLOYMENT | AS_OF
        assert {name: got[name] for name in sorted(DEPLOYMENT | AS_OF)} == {
            "deployment_id": "chat",
            "status": "created",
            "current_replicas": 1,
            "min_replicas": 2,
            "profile": "dedicated.h100.2x",
            "labels": {},
            "replicas": [
                {"replica_id": "chat-r1", "status": "pending"},
                {"replica_id": "chat-r2", "status": "running"},
            ],
            "as_of": utc("12:01"),
        }


async def test_an_org_in_numbers() -> None:
    """Burn: a replica 360, two GPUs 500, 100 GB at 0.5 = 50: 910 an hour; 91 of it lasts a tenth of an hour."""
    world = FakeCluster()
    world.price("11:00", "dedicated.h100.1x", "360")
    world.price("11:00", "instance.a100.2x", "500")
    world.price("11:00", "disk", "0.5")
    world.balance("12:00", "acme", "5000")
    world.deploy("12:00", "acme", "chat")
    world.healthy("12:01", "acme", "chat-r1")
    world.rent("12:01", "acme", "box")
    world.report("12:02", "acme", "box", "workload_up")
    world.balance("12:03", "acme", "91")
    async with serving(world) as (worker,):
        got = (await worker.get("/orgs/acme")).json
        assert set(got) >= ORG | AS_OF
        assert got["balance"] == "91"
        assert got["suspended"] is False
        assert got["burn_per_hour"] == "910"
        assert got["runway_s"] == 360
        assert got["auto_stop_at"] == utc("12:09")
        assert got["deployments"] == {"created": 1, "paused": 0, "failed": 0, "stopped": 0}
        assert got["replicas"]["running"] == 1
        assert sum(got["replicas"].values()) == 1
        assert got["instances"]["running"] == 1
        assert sum(got["instances"].values()) == 1
        # Windows: the replica 12:01 to 12:03, the GPUs 12:02 to 12:03, nothing ticked yet.
        assert got["conservation"] == {
            "running_ms": 180_000,
            "billed_ms": 0,
            "pending_ms": 180_000,
            "forgiven_ms": 0,
            "overbilled_ms": 0,
            "unexplained_ms": 0,
        }


@pytest.mark.parametrize(
    ("balance", "burning", "runway_s"),
    [("0", True, 0), ("-3", True, 0), ("-3", False, 0), (None, True, 0), (None, False, 0), ("10", False, None)],
)
async def test_runway_at_its_edges(*, balance: str | None, burning: bool, runway_s: int | None) -> None:
    world = FakeCluster()
    world.price("11:00", "dedicated.h100.1x", "360")
    world.deploy("12:00", "acme", "chat")
    if balance is not None:
        world.balance("12:00", "acme", balance)
    if burning:
        world.healthy("12:01", "acme", "chat-r1")
    async with serving(world) as (worker,):
        got = (await worker.get("/orgs/acme")).json
        assert got["balance"] == balance
        assert got["runway_s"] == runway_s


async def test_auto_destroy_is_a_day_after_the_balance_ran_out_and_at_minus_35() -> None:
    """A stopped disk of 100 GB at 0.5 burns 50 an hour: −10 falls to −35 within half an hour, a day is later."""
    world = FakeCluster()
    world.price("08:00", "instance.a100.2x", "500")
    world.price("08:00", "disk", "0.5")
    world.balance("09:00", "acme", "5000")
    world.rent("09:00", "acme", "box")
    world.report("09:01", "acme", "box", "workload_up")
    world.balance("10:00", "acme", "-1")
    world.report("10:01", "acme", "box", "stop_confirmed")
    world.balance("10:30", "acme", "-10")
    async with serving(world) as (worker,):
        got = (await worker.get("/orgs/acme")).json
        assert got["empty_since"] == utc("10:00")
        assert got["auto_stop_at"] is None
        assert got["auto_destroy_at"] == "2026-11-30T10:00:00.000Z"


async def test_auto_destroy_is_later_where_only_disks_burn_down_to_minus_35() -> None:
    """99 an hour and a disk at 1 empty a balance of 100 in an hour; what then stops burns 1 an hour, 35 hours long."""
    world = FakeCluster()
    world.price("08:00", "instance.a100.2x", "99")
    world.price("08:00", "disk", "0.01")
    world.balance("09:00", "acme", "5000")
    world.rent("09:00", "acme", "box")
    world.report("09:01", "acme", "box", "workload_up")
    world.balance("10:00", "acme", "100")
    async with serving(world) as (worker,):
        got = (await worker.get("/orgs/acme")).json
        assert got["auto_stop_at"] == utc("11:00")
        assert got["auto_destroy_at"] == "2026-11-30T22:00:00.000Z"


async def test_an_instance_in_each_meter() -> None:
    world = FakeCluster()
    world.price("11:00", "instance.a100.2x", "500")
    world.price("11:00", "disk", "0.5")
    world.balance("12:00", "acme", "5000")
    world.rent("12:00", "acme", "box")
    async with serving(world) as (worker,):
        got = (await worker.get("/orgs/acme/instances/box")).json
        assert set(got) >= INSTANCE | AS_OF
        assert (got["state"], got["transitional"], got["meter"]) == ("creating", True, "none")
        assert got["allowed_actions"] == ["destroy"]
        assert got["gpus_held"] is True
        assert got["windows"] == []
        world.report("12:02", "acme", "box", "workload_up")
        got = (await worker.get("/orgs/acme/instances/box")).json
        assert (got["state"], got["transitional"], got["meter"]) == ("running", False, "gpu")
        assert got["allowed_actions"] == ["stop", "destroy"]
        world.command("12:03", "acme", type="stop_instance", instance_id="box")
        world.report("12:03:30", "acme", "box", "stop_confirmed")
        got = (await worker.get("/orgs/acme/instances/box")).json
        assert (got["state"], got["transitional"], got["meter"]) == ("stopped", False, "disk")
        assert got["allowed_actions"] == ["start", "destroy"]
        gpu, disk = got["windows"]
        assert (gpu["window_id"], gpu["quantity"], gpu["billed_ms"], gpu["last_health_check"]) == (
            "box.gpu.w1",
            1,
            60_000,
            None,
        )
        assert (disk["window_id"], disk["profile"], disk["quantity"]) == ("box.disk.w1", "disk", 100)
        world.report("12:04", "acme", "box", "workload_gone", message="no such container")
        got = (await worker.get("/orgs/acme/instances/box")).json
        assert (got["state"], got["error_code"], got["error_message"]) == (
            "error",
            "workload_gone",
            "no such container",
        )


async def test_destroyed_instances_are_listed_only_when_asked_for() -> None:
    world = FakeCluster()
    world.price("11:00", "instance.a100.2x", "500")
    world.price("11:00", "disk", "0.5")
    world.balance("12:00", "acme", "50000")
    world.rent("12:00", "acme", "one")
    world.rent("12:01", "acme", "two")
    world.command("12:02", "acme", type="destroy_instance", instance_id="one")
    world.report("12:03", "acme", "one", "teardown_finished")
    async with serving(world) as (worker,):
        for query, ids in {
            "": ["two"],
            "?include_destroyed=false": ["two"],
            "?include_destroyed=true": ["one", "two"],
            "?status=destroyed": ["one"],
            "?q=tw": ["two"],
        }.items():
            got = (await worker.get(f"/orgs/acme/instances{query}")).json
            assert [item["instance_id"] for item in got["items"]] == ids
            assert got["next"] is None
            assert set(got["items"][0]) >= INSTANCE
        assert (await worker.get("/orgs/acme")).json["instances"]["destroyed"] == 1
        assert (await worker.get("/orgs/acme/instances?include_destroyed=maybe")).status == 400


async def test_a_list_goes_on_where_it_ended_even_when_rows_come_and_go() -> None:
    world = FakeCluster()
    world.price("11:00", "dedicated.h100.1x", "1")
    for number in range(25):
        world.deploy(f"12:{number:02}", "acme", f"d{24 - number:02}")
    oldest_first = [f"d{24 - number:02}" for number in range(25)]
    async with serving(world) as (worker,):
        seen: list[str] = []
        path: str | None = "/orgs/acme/deployments?limit=10"
        while path:
            got = (await worker.get(path)).json
            seen += [item["deployment_id"] for item in got["items"]]
            path = got["next"] and f"/orgs/acme/deployments?limit=10&cursor={got['next']}"
            if len(seen) == 10:
                world.deploy("12:30", "acme", "later")
                store = world.shard_of("acme").store
                store.restore_removed("deployments", "acme", "d05")
        assert seen == [one for one in oldest_first if one != "d05"] + ["later"]


def clock(second: int) -> str:
    return f"{second // 3_600:02}:{second // 60 % 60:02}:{second % 60:02}"


def flapping() -> FakeCluster:
    """A replica with 1,203 windows of 1 s each, 20 s apart; a tick at 08:00 has billed all of them."""
    world = FakeCluster()
    world.price("00:00", "dedicated.h100.1x", "360")
    world.deploy("00:00", "acme", "chat")
    for number in range(1_203):
        world.healthy(clock(20 * number), "acme", "chat-r1")
        world.progress(clock(20 * number + 1), "acme", "chat-r1", "RESTARTING")
    world.tick("08:00")
    return world


async def test_a_replica_has_its_newest_1000_windows_and_a_list_of_all() -> None:
    async with serving(flapping(), render=Pages()) as (worker,):
        got = (await worker.get("/orgs/acme/replicas/chat-r1")).json
        assert [one["window_id"] for one in got["windows"]] == [f"chat-r1.w{n}" for n in range(204, 1_204)]
        assert got["windows_total"] == 1_203
        # All windows, also those that are not shown.
        assert got["conservation"]["running_ms"] == got["conservation"]["billed_ms"] == 1_203_000
        listed: list[str] = []
        path: str | None = "/orgs/acme/replicas/chat-r1/windows?limit=500"
        while path:
            page = (await worker.get(path)).json
            assert set(page["items"][0]) >= WINDOW
            assert len(page["items"]) <= 500
            listed += [one["window_id"] for one in page["items"]]
            path = page["next"] and f"/orgs/acme/replicas/chat-r1/windows?limit=500&cursor={page['next']}"
        assert listed == [f"chat-r1.w{n}" for n in range(1, 1_204)]
        html = (await worker.get("/orgs/acme/replicas/chat-r1", Accept="text/html")).text
        assert "All 1,203 windows" in html
        assert html.count('<a href="/orgs/acme/windows/') == 100
        assert html.count('data-kind="billed"') == 100
        assert "20 min 3 s" in html
        assert (await worker.get("/orgs/acme/replicas/chat-r1/windows", Accept="text/html")).text.count("<tr>") == 101
        assert (await worker.get("/orgs/acme/replicas/none/windows")).status == 404


async def test_a_deployment_has_its_newest_1000_replicas_and_a_list_of_all() -> None:
    """A crash-looping replica is replaced at each tick (P5)."""
    world = FakeCluster()
    world.price("00:00", "dedicated.h100.1x", "360")
    world.deploy("00:00", "acme", "chat")
    for number in range(1, 1_103):
        world.progress(clock(30 * number), "acme", f"chat-r{number}", "VM_CRASH")
        world.tick(clock(30 * number + 1))
    async with serving(world, render=Pages()) as (worker,):
        got = (await worker.get("/orgs/acme/deployments/chat")).json
        assert [one["replica_id"] for one in got["replicas"]] == [f"chat-r{n}" for n in range(104, 1_104)]
        assert (got["replicas_total"], got["replicas"][-1]["status"]) == (1_103, "pending")
        first = (await worker.get("/orgs/acme/deployments/chat/replicas?limit=1000")).json
        rest = (await worker.get(f"/orgs/acme/deployments/chat/replicas?limit=1000&cursor={first['next']}")).json
        assert rest["next"] is None
        listed = [one["replica_id"] for one in first["items"] + rest["items"]]
        assert listed == [f"chat-r{n}" for n in range(1, 1_104)]
        page = (await worker.get("/orgs/acme/deployments/chat", Accept="text/html")).text
        assert "All 1,103 replicas" in page
        assert page.count('<a href="/orgs/acme/replicas/') == 100


async def test_a_page_of_a_list_ends_early_rather_than_grow_without_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site, "MAX_NESTED", 5)
    world = FakeCluster()
    world.price("11:00", "dedicated.h100.1x", "1")
    for number in range(6):
        world.deploy(f"12:0{number}", "acme", f"d{number}", min_replicas=2 if number != 3 else 20)
    async with serving(world) as (worker,):
        pages: list[list[str]] = []
        path: str | None = "/orgs/acme/deployments?limit=4"
        while path:
            got = (await worker.get(path)).json
            pages.append([item["deployment_id"] for item in got["items"]])
            path = got["next"] and f"/orgs/acme/deployments?limit=4&cursor={got['next']}"
        assert pages == [["d0", "d1"], ["d2"], ["d3"], ["d4", "d5"]]


@pytest.mark.parametrize(
    "query",
    ["limit=0", "limit=1001", "limit=ten", "limit=-1", "limit=%C2%B2", "cursor=%00", "cursor=WzEsMl0", "status=gone"],
)
async def test_the_problem_of_a_bad_query_says_what_is_allowed(query: str) -> None:
    world = FakeCluster()
    world.deploy("12:00", "acme", "chat", serving="serverless")
    async with serving(world) as (worker,):
        got = await worker.get(f"/orgs/acme/deployments?{query}")
        assert got.status == 400
        assert got.headers["Content-Type"].startswith("application/problem+json")
        assert got.json["status"] == 400
        assert got.json["detail"]


async def test_prices_and_since_when() -> None:
    world = FakeCluster()
    world.price("11:00", "disk", "0.5")
    world.price("11:30", "dedicated.h100.1x", "360")
    world.price("12:00", "dedicated.h100.1x", "400")
    world.price("12:30", "disk", None)
    async with serving(world) as (worker,):
        got = (await worker.get("/prices")).json
        assert got["as_of"] == utc("12:30")
        assert [(item["profile"], item["price"], item["unit"], item["since"]) for item in got["items"]] == [
            ("disk", None, "per GB per hour", utc("12:30")),
            ("dedicated.h100.1x", "400", "per hour", utc("12:00")),
        ]
        first = (await worker.get("/prices?limit=1")).json
        assert [item["profile"] for item in first["items"]] == ["disk"]
        rest = (await worker.get(f"/prices?cursor={first['next']}")).json
        assert [item["profile"] for item in rest["items"]] == ["dedicated.h100.1x"]


@pytest.mark.parametrize(
    "path",
    [
        "/orgs/unknown",
        "/orgs/unknown/deployments",
        "/orgs/acme/deployments/none",
        "/orgs/acme/replicas/chat-r9",
        "/orgs/acme/instances/none",
        "/orgs/acme/windows/chat-r1.w2",
        "/orgs/acme/windows/chat-r1",
        "/orgs/acme/explain/none:2026-11-29T12:00:00.000Z",
        "/orgs/%0d%0aSet-Cookie:x",
        "/orgs/%00",
        "/orgs/acme/replicas/%E2%80%AE",
        "/table",
        "/router",
        "/graph",
    ],
)
async def test_what_does_not_exist_is_a_problem(path: str) -> None:
    async with serving(dead_node()) as (worker,):
        got = await worker.get(path)
        assert got.status == 404
        assert got.headers["Content-Type"].startswith("application/problem+json")
        assert set(got.json) >= {"type", "title", "status", "detail", "instance"}


async def test_held_shows_the_first_reason_that_holds() -> None:
    world = FakeCluster()
    world.price("11:00", "dedicated.h100.1x", "360")
    world.deploy("12:00", "acme", "chat")
    world.healthy("12:00", "acme", "chat-r1")
    world.tick("12:01")
    async with serving(world) as (worker,):

        async def held() -> object:
            return (await worker.get("/orgs/acme/windows/chat-r1.w1")).json["held"]

        assert await held() is None
        world.tick("12:01:30")
        assert await held() == "no_heartbeat"
        world.switches = type(world.switches)(billing_enabled=True, dry_run=True)
        assert await held() == "dry_run"
        world.switches = type(world.switches)()
        assert await held() == "billing_off"
        world.price("12:01:20", "dedicated.h100.1x", None)
        assert await held() == "unpriced"


async def test_not_ready_before_the_first_assignment() -> None:
    world = FakeCluster()
    async with serving(world) as (worker,):
        worker.site.source.is_assigned = False  # type: ignore[misc]
        got = await worker.get("/ready")
        assert got.status == 503
        assert "no assignment of partitions yet" in got.json["detail"]


async def test_ready_and_health_while_a_partition_restores() -> None:
    world = FakeCluster(partitions=2)
    world.tick("12:00")
    async with serving(world) as (worker,):
        assert (await worker.get("/ready")).status == 200
        world.all[1].ready = False
        world.all[1].restored_rows, world.all[1].restore_total = 40, 100
        got = await worker.get("/ready")
        assert got.status == 503
        assert got.json["partitions"][1] == {
            "partition": 1,
            "state": "restoring",
            "restored_rows": 40,
            "restore_total": 100,
            "blocked": None,
        }
        assert "Retry-After" in got.headers
        assert (await worker.get("/health")).status == 200
        world.owners = dict.fromkeys(world.owners, "http://127.0.0.1:1")
        assert (await worker.get("/ready")).status == 200


async def test_not_ready_while_a_partition_is_blocked_and_health_says_why() -> None:
    world = FakeCluster(partitions=3)
    world.tick("12:00")
    world.all[1].blocked = "execlet.heartbeats partition 1 can't be read at offset 7: the checksum is wrong"
    async with serving(world) as (worker,):
        got = await worker.get("/ready")
        assert got.status == 503
        why = f"partition 1: {world.all[1].blocked}"
        assert got.json["detail"] == why
        health = await worker.get("/health")
        assert (health.status, health.json["problems"]) == (200, [why])
        assert [part["blocked"] for part in got.json["partitions"]] == [None, world.all[1].blocked, None]
        world.all[2].ready = False
        assert (await worker.get("/ready")).json["detail"] == (f"1 of 3 partitions are restoring their rows; {why}")
        world.all[1].blocked, world.all[2].ready = None, True
        assert (await worker.get("/ready")).status == 200


async def test_the_fleet_adds_up_and_is_silent_while_it_can_not() -> None:
    world = FakeCluster(partitions=3)
    world.price("11:00", "dedicated.h100.1x", "360")
    for number in range(12):
        world.deploy("12:00", f"org{number}", "chat")
        world.healthy("12:00", f"org{number}", "chat-r1")
    world.tick("12:01")
    world.all[2].as_of = at("12:03")
    world.all[0].counters["dead", "invalid"] = 2
    world.all[1].counters["dead", "invalid"] = 3
    async with serving(world, 2) as workers:
        for worker in workers:
            got = (await worker.get("/")).json
            assert got["as_of"] == utc("12:01")
            assert got["orgs"] == 12
            assert got["running_replicas"] == 12
            assert got["usage_per_minute"] + got["windows"]["paused"] == 12
            assert got["dead_letters"] == {"invalid": 5}
            assert got["conservation"]["unexplained_ms"] == 0
            assert [part["partition"] for part in got["partitions"]] == [0, 1, 2]
        world.all[1].ready = False
        for worker in workers:
            got_503 = await worker.get("/")
            assert got_503.status == 503
            assert "running_replicas" not in got_503.json
            assert [part["state"] for part in got_503.json["partitions"]] == ["ready", "restoring", "ready"]


async def test_one_unexplained_millisecond_is_an_alarm_even_where_another_window_makes_up_for_it() -> None:
    world = dead_node()
    world.deploy("13:31", "acme", "more")
    world.healthy("13:31", "acme", "more-r1")
    rows = world.shard_of("acme").store.orgs["acme"]
    damage(rows.windows["chat-r1.w1"], billed_ms=1)
    async with serving(world) as (worker,):
        window = (await worker.get("/orgs/acme/windows/chat-r1.w1")).json
        assert window["unexplained_ms"] == -1
        damage(rows.replicas["more-r1"].open_windows[0], billed_ms=-1)
        assert (await worker.get("/orgs/acme")).json["conservation"]["unexplained_ms"] == 2
        fleet = (await worker.get("/")).json
        assert fleet["conservation"]["unexplained_ms"] == 2
        assert fleet["unexplained"] == [{"org_id": "acme", "unexplained_ms": 2}]
