"""The contract's Web views: all paths and fields, lists, problems, and the `as_of` of each response."""

from __future__ import annotations

import calendar
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest

from tests.support.contract import DEPLOYMENT, INSTANCE, ORG, REPLICA, WINDOW
from tests.support.outside import HOUR_MS, MINUTE_MS, rfc3339

if TYPE_CHECKING:
    from tests.support.http_get import Response
    from tests.support.outside import Outside

pytestmark = pytest.mark.kafka

UNKNOWN_ORG = "unknown-org"


def shown(obol: Outside, path: str) -> dict[str, Any]:
    """Request a view; it must respond with 200."""
    response = obol.get(path)
    assert (response.status, response.headers["content-type"]) == (200, "application/json"), response.text
    return dict(response.json)


def only(fields: set[str], row: dict[str, Any]) -> dict[str, Any]:
    """Return the fields that the contract names; all must be present."""
    assert set(row) >= fields, fields - set(row)
    return {name: row[name] for name in fields}


def counted(counts: dict[str, int]) -> dict[str, int]:
    """Return counts without zeros."""
    return {state: count for state, count in counts.items() if count}


def assert_problem(response: Response, status: int, path: str) -> None:
    """Check for a problem object of RFC 9457 with `as_of`."""
    assert (response.status, response.headers["content-type"]) == (status, "application/problem+json"), response.text
    assert {"type", "title", "status", "detail", "instance", "as_of"} <= set(response.json), path
    assert response.json["status"] == status


@pytest.fixture(scope="module")
def acme(obol: Outside) -> str:
    """Create an org with two deployments, three instances, and a window without heartbeats."""
    org_id = obol.new_id("acme")
    for profile, price in (("dedicated.web.2x", "100"), ("instance.web.1x", "40.5"), ("disk", "0.5")):
        obol.price(profile, price)
    obol.balance(org_id, "1000.50")
    deploy = {
        "offer_id": "o",
        "gpu_type": "web",
        "gpu_count": 1,
        "disk_gb": 10,
        "template": {"mode": "ssh", "image": "x"},
    }
    for deployment_id in ("first", "second"):
        obol.advance(1)
        obol.command(
            org_id,
            "create_deployment",
            deployment_id=deployment_id,
            model="m",
            gpu_type="web",
            gpu_count=2,
            min_replicas=2,
        )
    for instance_id in ("z-runs", "y-stopped", "x-gone", "a-creating"):
        obol.advance(1)
        obol.command(org_id, "deploy_instance", instance_id=instance_id, **deploy)
    obol.advance(MINUTE_MS - obol.now % MINUTE_MS + 500)
    obol.progress(org_id, "first-r1", "RUNNING", "healthy")
    obol.progress(org_id, "first-r2", "STARTING", "pulling image")
    obol.progress(org_id, "second-r1", "VM_CRASH")
    for instance_id in ("z-runs", "y-stopped"):
        obol.report(org_id, instance_id, "workload_up")
    obol.advance(MINUTE_MS)
    obol.heartbeat(org_id, "first-r1")
    obol.command(org_id, "stop_instance", instance_id="y-stopped")
    obol.command(org_id, "destroy_instance", instance_id="x-gone")
    obol.advance(1)
    obol.report(org_id, "y-stopped", "stop_confirmed")
    obol.report(org_id, "x-gone", "teardown_finished")
    obol.advance(2 * MINUTE_MS - 1)
    obol.tick()
    obol.wait_until_applied()
    return org_id


def test_an_org(obol: Outside, acme: str) -> None:
    # Running: 100 and 40.5 + 5; stopped: 5; creating: 40.5 + 5; 196 an hour. 1000.5 / 196 h = 18376.53 s.
    org = only({"as_of", *ORG}, shown(obol, f"/orgs/{acme}"))
    assert {name: org[name] for name in ("balance", "suspended", "burn_per_hour", "runway_s", "as_of")} == {
        "balance": "1000.50",
        "suspended": False,
        "burn_per_hour": "196",
        "runway_s": 18_376,
        "as_of": rfc3339(obol.now),
    }
    assert counted(org["deployments"]) == {"created": 2}
    assert counted(org["replicas"]) == {"running": 1, "pulling_docker_image": 1, "pending": 2, "failed": 1}
    assert counted(org["instances"]) == {"running": 1, "stopped": 1, "creating": 1, "destroyed": 1}


def test_a_runway_is_null_without_burn_and_zero_without_balance(obol: Outside) -> None:
    org_id = obol.new_id("calm")
    obol.price("disk", "0.5")
    obol.price("instance.web.1x", "40.5")
    obol.account(org_id, "org_suspended")
    obol.wait_until_applied()
    org = only(ORG, shown(obol, f"/orgs/{org_id}"))
    assert (org["balance"], org["suspended"], org["burn_per_hour"], org["runway_s"]) == (None, True, "0", 0)
    obol.balance(org_id, "5")
    obol.wait_until_applied()
    org = only(ORG, shown(obol, f"/orgs/{org_id}"))
    assert (org["balance"], org["burn_per_hour"], org["runway_s"]) == ("5", "0", None)


def test_deployments_and_replicas(obol: Outside, acme: str) -> None:
    first = {
        "deployment_id": "first",
        "status": "created",
        "current_replicas": 1,
        "min_replicas": 2,
        "profile": "dedicated.web.2x",
        "labels": {},
        "replicas": [
            {"replica_id": "first-r1", "status": "running"},
            {"replica_id": "first-r2", "status": "pulling_docker_image"},
        ],
    }
    response = shown(obol, f"/orgs/{acme}/deployments")
    assert response["next"] is None
    assert only(DEPLOYMENT, response["items"][0]) == first
    assert [item["deployment_id"] for item in response["items"]] == ["first", "second"]
    assert only(DEPLOYMENT, shown(obol, f"/orgs/{acme}/deployments/first")) == first
    second = shown(obol, f"/orgs/{acme}/deployments/second")
    assert [(r["replica_id"], r["status"]) for r in second["replicas"]] == [
        ("second-r1", "failed"),
        ("second-r2", "pending"),
        ("second-r3", "pending"),
    ]
    opened = obol.now - 3 * MINUTE_MS
    heartbeat = obol.now - 2 * MINUTE_MS
    window = {
        "window_id": "first-r1.w1",
        "profile": "dedicated.web.2x",
        "quantity": 1,
        "opened_at": rfc3339(opened),
        "ended_at": None,
        "last_health_check": rfc3339(heartbeat),
        "billed_until": rfc3339(heartbeat + MINUTE_MS - 500),
        "running_ms": 3 * MINUTE_MS,
        "billed_ms": 2 * MINUTE_MS - 500,
        "pending_ms": MINUTE_MS + 500,
        "forgiven_ms": 0,
        "overbilled_ms": 0,
        "credited_ms": 0,
        "credit_pending_ms": 0,
        "held": "no_heartbeat",
    }
    replica = shown(obol, f"/orgs/{acme}/replicas/first-r1")
    assert only(WINDOW, replica["windows"][0]) == window
    assert only(WINDOW, shown(obol, f"/orgs/{acme}/windows/first-r1.w1")) == window
    replica = only(REPLICA, replica)
    assert len(replica.pop("windows")) == 1
    assert replica == {
        "replica_id": "first-r1",
        "deployment_id": "first",
        "status": "running",
        "fail_reason": None,
        "last_health_check": rfc3339(heartbeat),
    }
    assert only(REPLICA, shown(obol, f"/orgs/{acme}/replicas/second-r1")) == {
        "replica_id": "second-r1",
        "deployment_id": "second",
        "status": "failed",
        "fail_reason": "container_crashed",
        "last_health_check": None,
        "windows": [],
    }


def test_instances(obol: Outside, acme: str) -> None:
    found = {
        item["instance_id"]: only(INSTANCE, item)
        for item in shown(obol, f"/orgs/{acme}/instances?include_destroyed=true")["items"]
    }
    assert list(found) == ["z-runs", "y-stopped", "x-gone", "a-creating"]
    visible = [item["instance_id"] for item in shown(obol, f"/orgs/{acme}/instances")["items"]]
    assert visible == ["z-runs", "y-stopped", "a-creating"]
    assert [
        item["instance_id"] for item in shown(obol, f"/orgs/{acme}/instances?include_destroyed=false")["items"]
    ] == visible
    steady: dict[str, Any] = {"gpus_held": True, "error_code": None, "error_message": None, "labels": {}}
    expected: dict[str, dict[str, Any]] = {
        "z-runs": {
            "state": "running",
            "transitional": False,
            "meter": "gpu",
            "allowed_actions": ["stop", "destroy"],
            **steady,
        },
        "y-stopped": {
            "state": "stopped",
            "transitional": False,
            "meter": "disk",
            "allowed_actions": ["start", "destroy"],
            **steady,
        },
        "x-gone": {
            "state": "destroyed",
            "transitional": False,
            "meter": "none",
            "allowed_actions": [],
            **steady,
            "gpus_held": False,
        },
        "a-creating": {
            "state": "creating",
            "transitional": True,
            "meter": "none",
            "allowed_actions": ["destroy"],
            **steady,
        },
    }
    for instance_id, item in found.items():
        assert only(INSTANCE, shown(obol, f"/orgs/{acme}/instances/{instance_id}")) == item
        windows = item.pop("windows")
        assert item == {"instance_id": instance_id, **expected[instance_id]}
        assert [w["window_id"].removeprefix(f"{instance_id}.") for w in windows] == {
            "z-runs": ["gpu.w1"],
            "y-stopped": ["gpu.w1", "disk.w1"],
        }.get(instance_id, [])
    confirmed = obol.now - 2 * MINUTE_MS + 1
    assert only(WINDOW, shown(obol, f"/orgs/{acme}/windows/y-stopped.disk.w1")) == {
        "window_id": "y-stopped.disk.w1",
        "profile": "disk",
        "quantity": 10,
        "opened_at": rfc3339(confirmed),
        "ended_at": None,
        "last_health_check": None,
        "billed_until": rfc3339(obol.now - 500),
        "running_ms": 2 * MINUTE_MS - 1,
        "billed_ms": 2 * MINUTE_MS - 501,
        "pending_ms": 500,
        "forgiven_ms": 0,
        "overbilled_ms": 0,
        "credited_ms": 0,
        "credit_pending_ms": 0,
        "held": None,
    }


def test_explain(obol: Outside, acme: str) -> None:
    charged = obol.out("croesus.usage", acme)
    assert charged
    for record in charged:
        usage_id = record.body["id"]
        for path in (usage_id, quote(usage_id, safe="")):
            response = shown(obol, f"/orgs/{acme}/explain/{path}")
            assert response["as_of"] == rfc3339(obol.now)
            assert (response["interval_start"], response["interval_end"]) == (
                record.body["interval_start"],
                record.body["interval_end"],
            )
            break
    assert_problem(obol.get(f"/orgs/{acme}/explain/nonsense"), 400, "explain")


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_a_list_goes_on_where_its_cursor_says(obol: Outside, acme: str, limit: int) -> None:
    seen: list[str] = []
    path = f"/orgs/{acme}/instances?include_destroyed=true&limit={limit}"
    cursor, pages = "", 0
    while True:
        response = shown(obol, path + cursor)
        assert len(response["items"]) <= limit
        seen += [item["instance_id"] for item in response["items"]]
        pages += 1
        if response["next"] is None:
            break
        cursor = f"&cursor={quote(response['next'], safe='')}"
    assert seen == ["z-runs", "y-stopped", "x-gone", "a-creating"]
    assert pages == -(-4 // limit)


@pytest.mark.parametrize(
    "query",
    ["limit=0", "limit=1001", "limit=x", "limit=-1", "limit=1.5", "cursor=nonsense", "include_destroyed=perhaps"],
)
def test_a_query_that_cannot_be_read_is_a_problem(obol: Outside, acme: str, query: str) -> None:
    path = f"/orgs/{acme}/instances?{query}"
    assert_problem(obol.get(path), 400, path)


def test_a_list_may_have_a_thousand(obol: Outside, acme: str) -> None:
    for name in ("instances", "deployments"):
        assert shown(obol, f"/orgs/{acme}/{name}?limit=1000")["items"]
    assert shown(obol, "/prices?limit=1000")["items"]


@pytest.mark.parametrize(
    "path",
    [
        "/nothing",
        "/orgs/{org}/nothing",
        f"/orgs/{UNKNOWN_ORG}",
        f"/orgs/{UNKNOWN_ORG}/deployments",
        "/orgs/{org}/deployments/unknown",
        "/orgs/{org}/replicas/unknown",
        "/orgs/{org}/instances/unknown",
        "/orgs/{org}/windows/unknown",
        "/orgs/-not-an-id",
    ],
)
def test_what_is_not_there_is_a_problem(obol: Outside, acme: str, path: str) -> None:
    assert_problem(obol.get(path.format(org=acme)), 404, path)


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/orgs/{org}",
        "/orgs/{org}/deployments",
        "/orgs/{org}/deployments/first",
        "/orgs/{org}/replicas/first-r1",
        "/orgs/{org}/instances",
        "/orgs/{org}/instances/z-runs",
        "/orgs/{org}/windows/first-r1.w1",
        "/prices",
    ],
)
def test_a_page_when_html_is_preferred(obol: Outside, acme: str, path: str) -> None:
    path = path.format(org=acme)
    for accept, kind in (
        ("text/html", "text/html"),
        ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", "text/html"),
        ("application/json", "application/json"),
        ("*/*", "application/json"),
        ("text/html;q=0.5, application/json", "application/json"),
    ):
        response = obol.get(path, Accept=accept)
        assert (response.status, response.headers["content-type"].split(";")[0]) == (200, kind), accept


def test_health_ready_and_metrics(obol: Outside) -> None:
    for path in ("/health", "/ready"):
        assert "as_of" in shown(obol, path)
    response = obol.get("/metrics")
    assert response.status == 200
    assert response.headers["content-type"].startswith("text/plain")
    assert "# TYPE" in response.text


def test_as_of_is_the_greatest_time_read_in_order_in_the_partition(obol: Outside, acme: str) -> None:
    def as_of(path: str = f"/orgs/{acme}") -> str:
        return str(shown(obol, path)["as_of"])

    def seen(path: str, at_ms: int) -> None:
        obol.wait_until_applied()
        obol.until(lambda: as_of(path) == rfc3339(at_ms), f"{path} as of {rfc3339(at_ms)}, not {as_of(path)}")

    here = obol.partition_of(acme)
    before = obol.now
    obol.tick()
    seen(f"/orgs/{acme}", before)
    dead = obol.advance(1_000)
    obol.send("host.reports", b"?", partition=here)
    seen(f"/orgs/{acme}", dead)
    seen("/", before)
    seen(f"/orgs/{acme}/deployments", dead)
    ignored = obol.advance(1_000)
    obol.heartbeat(acme, "second-r1")
    seen(f"/orgs/{acme}", ignored)
    late = obol.advance(1_000)
    obol.send("execlet.heartbeats", {"org_id": acme, "replica_id": "first-r1"}, at=before)
    obol.tick()
    seen(f"/orgs/{acme}", late)
    seen("/", late)
    price = obol.advance(HOUR_MS)
    obol.price("as.of", "1")
    seen("/prices", price)
    seen("/", late)


def test_figures_of_open_windows_are_as_of_then(obol: Outside, acme: str) -> None:
    obol.advance(1_234)
    obol.heartbeat(acme, "second-r1")
    obol.wait_until_applied()
    window = obol.until(
        lambda: (w := shown(obol, f"/orgs/{acme}/windows/z-runs.gpu.w1"))["as_of"] == rfc3339(obol.now) and w,
        "the last heartbeat",
    )
    opened = calendar.timegm(time.strptime(window["opened_at"][:19], "%Y-%m-%dT%H:%M:%S")) * 1000 + int(
        window["opened_at"][20:23]
    )
    assert window["running_ms"] == obol.now - opened
    assert window["running_ms"] == window["billed_ms"] + window["pending_ms"]


def test_prices(obol: Outside) -> None:
    obol.advance(1)
    obol.price("shown.price", "0.000000000000000001")
    obol.until(lambda: shown(obol, "/prices")["as_of"] == rfc3339(obol.now), "the price")
    (item,) = [i for i in shown(obol, "/prices?limit=1000")["items"] if i["profile"] == "shown.price"]
    assert (item["price"], item["currency"]) == ("0.000000000000000001", "JPY")
