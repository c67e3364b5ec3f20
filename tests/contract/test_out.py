"""The contract's Out: all outputs of a deployment and an instance, record by record, and the numbers in ids."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.support.contract import OUTBOUND
from tests.support.outside import MINUTE_MS, rfc3339

if TYPE_CHECKING:
    from tests.support.outside import Outside

pytestmark = pytest.mark.kafka

TEMPLATE = {"mode": "jupyter", "image": "ubuntu"}


def bodies(obol: Outside, topic: str, org_id: str, since: int = 0, **fields: Any) -> list[dict[str, Any]]:
    """Return an org's messages of a topic; checks key and timestamp."""
    found = obol.out(topic, org_id, **fields)
    for record in found:
        assert record.key == org_id.encode()
        assert record.partition == obol.partition_of(org_id)
    return [dict(record.body) for record in found if record.timestamp >= since]


def moves(obol: Outside, org_id: str, entity_id: str) -> list[tuple[str | None, str, str]]:
    """Return (from, to, reason) of each change of an entity."""
    return [(r.get("from"), r["to"], r["reason"]) for r in bodies(obol, "lifecycle.changes", org_id, id=entity_id)]


def whole_minute(obol: Outside) -> int:
    """Advance to the next whole minute."""
    return obol.advance(MINUTE_MS - obol.now % MINUTE_MS)


def test_a_deployment_from_create_to_stop(obol: Outside) -> None:
    org_id = obol.new_id("org")
    obol.price("dedicated.out.2x", "1")
    created = whole_minute(obol)
    obol.command(
        org_id, "create_deployment", deployment_id="d", model="llm", gpu_type="out", gpu_count=2, min_replicas=2
    )
    pulled = obol.advance(1_000)
    obol.progress(org_id, "d-r1", "STARTING", "Pulling image")
    obol.progress(org_id, "d-r2", "STARTING", "Pulling image")
    running = obol.advance(9_500)  # 10.5 s after the minute
    obol.progress(org_id, "d-r1", "RUNNING", "Healthy")
    obol.progress(org_id, "d-r1", "STARTING", "Pulling image")  # backwards: ignored
    crashed = obol.advance(60_000)
    obol.heartbeat(org_id, "d-r1")
    obol.progress(org_id, "d-r2", "VM_CRASH")
    first_tick = obol.advance(109_500)  # on the minute, after 169.5 s of running: only 150 s are covered by heartbeats
    obol.tick()
    restarted = obol.advance(500)
    obol.progress(org_id, "d-r1", "RESTARTING")
    healthy = obol.advance(500)
    obol.progress(org_id, "d-r1", "RUNNING", "it is healthy now")
    stopped = obol.advance(2_000)
    obol.command(org_id, "stop_deployment", deployment_id="d")
    obol.wait_until_applied()

    assert bodies(obol, "lifecycle.changes", org_id, kind="deployment") == [
        {
            "event_id": "deployment:d:1",
            "org_id": org_id,
            "kind": "deployment",
            "id": "d",
            "to": "created",
            "reason": "deployed",
            "at": rfc3339(created),
        },
        {
            "event_id": "deployment:d:2",
            "org_id": org_id,
            "kind": "deployment",
            "id": "d",
            "from": "created",
            "to": "stopped",
            "reason": "user",
            "at": rfc3339(stopped),
        },
    ]
    assert bodies(obol, "lifecycle.changes", org_id, id="d-r1") == [
        {
            "event_id": f"replica:d-r1:{n}",
            "org_id": org_id,
            "kind": "replica",
            "id": "d-r1",
            **old,
            "to": to,
            "reason": reason,
            "at": rfc3339(at),
        }
        for n, (old, to, reason, at) in enumerate(
            [
                ({}, "pending", "deployed", created),
                ({"from": "pending"}, "pulling_docker_image", "progress", pulled),
                ({"from": "pulling_docker_image"}, "running", "progress", running),
                ({"from": "running"}, "restarting", "progress", restarted),
                ({"from": "restarting"}, "running", "progress", healthy),
                ({"from": "running"}, "stopped", "user", stopped),
            ],
            1,
        )
    ]
    assert moves(obol, org_id, "d-r2")[-1] == ("pulling_docker_image", "failed", "container_crashed")
    assert moves(obol, org_id, "d-r3") == [(None, "pending", "scaler"), ("pending", "stopped", "user")]
    for record in obol.out("lifecycle.changes", org_id):
        assert rfc3339(record.timestamp) == record.body["at"]

    submit = {
        "org_id": org_id,
        "deployment_id": "d",
        "order": "submit_job",
        "attempt": 1,
        "model": "llm",
        "gpu_type": "out",
        "gpu_count": 2,
    }
    abort = {"org_id": org_id, "deployment_id": "d", "order": "abort_job", "attempt": 1}
    orders = obol.out("execlet.orders", org_id)
    assert [(r.timestamp, r.body) for r in orders] == [
        (created, {**submit, "order_id": "d-r1:submit_job", "replica_id": "d-r1"}),
        (created, {**submit, "order_id": "d-r2:submit_job", "replica_id": "d-r2"}),
        (first_tick, {**submit, "order_id": "d-r3:submit_job", "replica_id": "d-r3"}),
        (stopped, {**abort, "order_id": "d-r1:abort_job", "replica_id": "d-r1"}),
        (stopped, {**abort, "order_id": "d-r3:abort_job", "replica_id": "d-r3"}),
    ]

    # The last heartbeat at 70.5 s covers until 160.5 s; a window that is open bills whole minutes of it only.
    tick = whole_minute(obol)
    obol.tick()
    obol.wait_until_applied()
    pieces = [
        (running, created + MINUTE_MS, "w1", first_tick),
        (created + MINUTE_MS, created + 2 * MINUTE_MS, "w1", first_tick),
        (created + 2 * MINUTE_MS, crashed + 90_000, "w1", tick),
        (healthy, stopped, "w2", tick),
    ]
    usage = obol.out("croesus.usage", org_id)
    assert [(r.timestamp, r.body) for r in usage] == [
        (
            cause,
            {
                "id": f"d-r1:{rfc3339(start)}",
                "type": "dedicated_inference_running",
                "org_id": org_id,
                "deployment_id": "d",
                "replica_id": "d-r1",
                "window_id": f"d-r1.{window}",
                "profile": "dedicated.out.2x",
                "quantity": 1,
                "interval_start": rfc3339(start),
                "interval_end": rfc3339(end),
                "duration_ms": end - start,
            },
        )
        for start, end, window, cause in pieces
    ]
    assert {r.key for r in usage} == {org_id.encode()}


def test_an_instance_from_deploy_to_destroyed(obol: Outside) -> None:
    org_id = obol.new_id("org")
    obol.price("instance.out.4x", "100")
    obol.price("disk", "0.5")
    obol.balance(org_id, "1000")
    deployed = whole_minute(obol)
    obol.command(
        org_id,
        "deploy_instance",
        instance_id="i",
        offer_id="o",
        gpu_type="out",
        gpu_count=4,
        disk_gb=20,
        template=TEMPLATE,
    )
    up = obol.advance(1_250)
    obol.report(org_id, "i", "workload_up")
    stopping = obol.advance(MINUTE_MS)
    obol.command(org_id, "stop_instance", instance_id="i")
    stopped = obol.advance(100)
    obol.report(org_id, "i", "stop_confirmed")
    starting = obol.advance(900)
    obol.command(org_id, "start_instance", instance_id="i")
    refused = obol.advance(10)
    obol.report(org_id, "i", "start_refused", message="no power")
    cleared = obol.advance(10)
    obol.command(org_id, "start_instance", instance_id="i")
    up_again = obol.advance(10)
    obol.report(org_id, "i", "workload_up")
    lost = obol.advance(10)
    obol.report(org_id, "i", "workload_lost", message="m" * 5000)
    destroyed = obol.advance(10)
    obol.command(org_id, "destroy_instance", instance_id="i")
    again = whole_minute(obol)
    obol.tick()
    gone = obol.advance(10)
    obol.report(org_id, "i", "teardown_finished")
    obol.wait_until_applied()

    error = {"error_code": "workload_lost", "error_message": "m" * 4096}
    power = {"error_code": "start_refused", "error_message": "no power"}
    expected: list[tuple[str | None, str, str, int, dict[str, str]]] = [
        (None, "creating", "deployed", deployed, {}),
        ("creating", "running", "workload_up", up, {}),
        ("running", "stopping", "user", stopping, {}),
        ("stopping", "stopped", "stop_confirmed", stopped, {}),
        ("stopped", "starting", "user", starting, {}),
        ("starting", "stopped", "start_refused", refused, power),
        ("stopped", "starting", "user", cleared, {}),
        ("starting", "running", "workload_up", up_again, {}),
        ("running", "error", "workload_lost", lost, error),
        ("error", "destroying", "user", destroyed, {}),
        ("destroying", "destroyed", "teardown_finished", gone, {}),
    ]
    changes = bodies(obol, "lifecycle.changes", org_id)
    assert changes == [
        {
            "event_id": f"instance:i:{n}",
            "org_id": org_id,
            "kind": "instance",
            "id": "i",
            **({"from": old} if old else {}),
            "to": to,
            "reason": reason,
            **errors,
            "at": rfc3339(at),
        }
        for n, (old, to, reason, at, errors) in enumerate(expected, 1)
    ]

    orders = [
        (deployed, "create", 1, 1),
        (stopping, "stop", 1, 1),
        (starting, "start", 1, 1),
        (cleared, "start", 2, 1),
        (lost, "release_gpus", 1, 1),
        (destroyed, "destroy", 1, 1),
        (again, "destroy", 2, 2),
    ]
    assert [(r.timestamp, r.body) for r in obol.out("host.orders", org_id)] == [
        (at, {"order_id": f"i:{order}:{n}", "org_id": org_id, "instance_id": "i", "order": order, "attempt": attempt})
        for at, order, n, attempt in orders
    ]

    gpu = {"type": "instance_gpu_running", "profile": "instance.out.4x", "quantity": 1}
    disk = {"type": "instance_disk_stopped", "profile": "disk", "quantity": 20}
    pieces: list[tuple[int, int, str, dict[str, Any], int]] = [
        (up, deployed + MINUTE_MS, "gpu.w1", gpu, stopping),
        (deployed + MINUTE_MS, stopping, "gpu.w1", gpu, stopping),
        (stopped, starting, "disk.w1", disk, starting),
        (refused, cleared, "disk.w2", disk, cleared),
        (up_again, lost, "gpu.w2", gpu, lost),
    ]
    assert [(r.timestamp, r.body) for r in obol.out("croesus.usage", org_id)] == [
        (
            cause,
            {
                "id": f"i:{window.split('.')[0]}:{rfc3339(start)}",
                "org_id": org_id,
                "instance_id": "i",
                "window_id": f"i.{window}",
                **fields,
                "interval_start": rfc3339(start),
                "interval_end": rfc3339(end),
                "duration_ms": end - start,
            },
        )
        for start, end, window, fields, cause in pieces
    ]


def test_results_orders_and_letters_say_when_their_cause_was(obol: Outside) -> None:
    org_id = obol.new_id("org")
    obol.command(org_id, "stop_deployment", deployment_id="unknown")
    obol.price("dedicated.out.1x", "1")
    obol.command(org_id, "create_deployment", deployment_id="d", model="llm", gpu_type="out", gpu_count=1)
    obol.heartbeat(org_id, "unknown")
    obol.wait_until_applied()
    records = {topic: obol.out(topic) for topic in OUTBOUND}
    assert {topic for topic in OUTBOUND if records[topic]} >= {
        *("lifecycle.changes", "command.results", "execlet.orders", "dead.letters"),
    }
    for topic in OUTBOUND:
        for record in records[topic]:
            if "at" in record.body and topic != "command.results":
                assert record.body["at"] == rfc3339(record.timestamp)
            assert None not in record.body.values()
            if topic != "dead.letters":
                assert record.key == record.body["org_id"].encode()


def test_a_price_is_the_latest_not_after_the_time(obol: Outside) -> None:
    org_id = obol.new_id("org")
    start = whole_minute(obol)
    profile = "dedicated.late.1x"
    for at, price in ((start, "3"), (start - 5_000, "2"), (start, "4")):
        body = {"profile": profile, "price": price, "currency": "JPY", "more": 1}
        obol.send("croesus.prices", body, key=profile.encode(), at=at)
    obol.send(
        "croesus.prices", {"profile": profile, "price": "9", "currency": "USD"}, key=profile.encode(), at=start + 1
    )
    obol.send(
        "croesus.prices", {"profile": profile, "price": "-1", "currency": "JPY"}, key=profile.encode(), at=start + 1
    )
    obol.send("croesus.prices", {"profile": profile, "price": 1, "currency": "JPY"}, key=profile.encode(), at=start + 1)
    obol.send(
        "croesus.prices", {"profile": "another", "price": "1", "currency": "JPY"}, key=profile.encode(), at=start + 1
    )
    obol.send("croesus.prices", b"\xff", key=profile.encode(), at=start + 1)
    obol.send("croesus.prices", None, key=profile.encode(), at=start + 3 * MINUTE_MS)
    obol.send(
        "croesus.prices",
        {"profile": profile, "price": "5", "currency": "JPY"},
        key=profile.encode(),
        at=start + 5 * MINUTE_MS,
    )

    def shown() -> list[dict[str, Any]]:
        return [item for item in obol.get("/prices?limit=1000").json["items"] if item["profile"] == profile]

    obol.until(
        lambda: len(shown()) > 0 and obol.get("/prices").json["as_of"] == rfc3339(start + 5 * MINUTE_MS),
        "all prices are read",
    )
    obol.command(org_id, "create_deployment", deployment_id="d", model="m", gpu_type="late", gpu_count=1)
    obol.progress(org_id, "d-r1", "RUNNING", "healthy")
    for minute in range(1, 7):
        obol.advance(MINUTE_MS)
        obol.heartbeat(org_id, "d-r1")
        obol.tick()
        obol.wait_until_applied()
        billed = [r for r in obol.out("croesus.usage", org_id) if r.timestamp == obol.now]
        (window,) = obol.get(f"/orgs/{org_id}/replicas/d-r1").json["windows"]
        assert (minute, len(billed), window["held"]) == (
            minute,
            {1: 1, 2: 1, 3: 0, 4: 0, 5: 3, 6: 1}[minute],
            "unpriced" if minute in {3, 4} else None,
        )
    refused = obol.ask(org_id, "create_deployment", deployment_id="e", model="m", gpu_type="late", gpu_count=2)
    assert refused["code"] == "UNPRICED_PROFILE"


def test_the_reasons_of_deployments(obol: Outside) -> None:
    org_id = obol.new_id("org")
    obol.price("dedicated.why.1x", "1")
    fields = {"model": "m", "gpu_type": "why", "gpu_count": 1}
    whole_minute(obol)
    obol.command(org_id, "create_deployment", deployment_id="idle", idle_timeout_s=60, **fields)
    obol.command(org_id, "create_deployment", deployment_id="fatal", **fields)
    obol.command(org_id, "create_deployment", deployment_id="bad", **fields)
    obol.progress(org_id, "fatal-r1", "FAILED")
    obol.advance(MINUTE_MS - 1)
    obol.tick()  # one ms too early for idle
    obol.wait_until_applied()
    assert moves(obol, org_id, "idle") == [(None, "created", "deployed")]
    obol.advance(1)
    obol.tick()
    obol.advance(1)
    obol.send("inference.requests", {"org_id": org_id, "deployment_id": "idle"})
    obol.advance(1)
    obol.account(org_id, "org_suspended")
    obol.advance(1)
    obol.tick()
    obol.wait_until_applied()
    assert moves(obol, org_id, "idle") == [
        (None, "created", "deployed"),
        ("created", "paused", "idle"),
        ("paused", "created", "request"),
        ("created", "stopped", "org_suspended"),
    ]
    assert moves(obol, org_id, "idle-r1") == [(None, "pending", "deployed"), ("pending", "stopped", "idle")]
    assert moves(obol, org_id, "idle-r2") == [(None, "pending", "request"), ("pending", "stopped", "org_suspended")]
    assert moves(obol, org_id, "fatal") == [(None, "created", "deployed"), ("created", "failed", "replicas_failed")]
    assert moves(obol, org_id, "fatal-r1") == [
        (None, "pending", "deployed"),
        ("pending", "failed", "image_pull_failed"),
    ]
    assert moves(obol, org_id, "bad-r1")[-1] == ("pending", "stopped", "org_suspended")


def test_the_reasons_of_instances(obol: Outside) -> None:
    org_id = obol.new_id("org")
    obol.price("instance.why.1x", "1")
    obol.price("disk", "0")
    obol.balance(org_id, "100")
    deploy = {"offer_id": "o", "gpu_type": "why", "gpu_count": 1, "disk_gb": 1, "template": TEMPLATE}
    whole_minute(obol)
    for instance_id in ("slow", "dead", "lazy", "owes"):
        obol.command(org_id, "deploy_instance", instance_id=instance_id, **deploy)
    obol.advance(1)
    obol.report(org_id, "dead", "launch_failed", reached_host=False)
    for instance_id in ("slow", "lazy", "owes"):
        obol.report(org_id, instance_id, "workload_up")
    obol.advance(1)
    obol.command(org_id, "stop_instance", instance_id="slow")
    obol.command(org_id, "stop_instance", instance_id="lazy")
    obol.advance(1)
    obol.report(org_id, "lazy", "stop_confirmed")
    obol.advance(1)
    obol.command(org_id, "start_instance", instance_id="lazy")
    obol.advance(30 * MINUTE_MS)
    obol.tick()
    obol.advance(1)
    obol.balance(org_id, "-35")
    obol.advance(1)
    obol.report(org_id, "owes", "stop_confirmed")
    obol.advance(30 * MINUTE_MS)
    obol.tick()  # an hour and some ms after `dead` entered error
    obol.advance(24 * 60 * MINUTE_MS)
    obol.tick()  # `auto_destroy_ahead` goes out, and an hour must pass after it
    obol.advance(60 * MINUTE_MS)
    obol.tick()
    obol.wait_until_applied()
    head = (None, "creating", "deployed")
    up = ("creating", "running", "workload_up")
    assert moves(obol, org_id, "slow") == [
        head,
        up,
        ("running", "stopping", "user"),
        ("stopping", "running", "stop_timed_out"),
    ]
    assert moves(obol, org_id, "dead") == [
        head,
        ("creating", "error", "launch_failed"),
        ("error", "destroying", "error_expired"),
    ]
    assert moves(obol, org_id, "lazy") == [
        head,
        up,
        ("running", "stopping", "user"),
        ("stopping", "stopped", "stop_confirmed"),
        ("stopped", "starting", "user"),
        ("starting", "stopped", "start_timed_out"),
        ("stopped", "destroying", "balance_debt"),
    ]
    assert moves(obol, org_id, "owes") == [
        head,
        up,
        ("running", "stopping", "balance_empty"),
        ("stopping", "stopped", "stop_confirmed"),
        ("stopped", "destroying", "balance_debt"),
    ]
    timed_out = obol.out("lifecycle.changes", org_id, id="slow")[-1].body
    assert (timed_out["error_code"], bool(timed_out["error_message"])) == ("stop_timed_out", True)
    releases = [r.body["instance_id"] for r in obol.out("host.orders", org_id, order="release_gpus")]
    # `owes` with its stop; `lazy` half an hour later, for its start timed out from the first tick on (I7, I12).
    assert releases == ["owes", "lazy"]
    shown = obol.get(f"/orgs/{org_id}/instances/slow").json
    assert (shown["state"], shown["error_code"], shown["gpus_held"]) == ("running", "stop_timed_out", True)
    assert shown["allowed_actions"] == ["stop", "destroy"]
