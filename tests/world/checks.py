"""Checks that hold after every test: of all outputs, and of all rows."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from schemas.times import parse_rfc3339, rfc3339
from streams.meters import METERS, METERS_OF
from tests.world.world import Sent, World

# The fields of the contract. An instance's change may have an error, a rejected result a code.
USAGE_FIELDS = {"id", "type", "org_id", "window_id", "profile", "quantity", "duration_ms"}
USAGE_FIELDS |= {"interval_start", "interval_end"}
CHANGE_FIELDS = {"event_id", "org_id", "kind", "id", "to", "reason", "at"}
RESULT_FIELDS = {"command_id", "org_id", "outcome", "status", "message", "at"}
ORDER_FIELDS = {"order_id", "org_id", "order", "attempt"}
CREDIT_FIELDS = {"id", "usage_id", "reason"} | USAGE_FIELDS
NOTICE_FIELDS = {"notice_id", "org_id", "kind", "balance", "burn_per_hour", "at"}

BY_TYPE = {meter.usage_type: meter for meter in METERS.values()}
OWNER_FIELDS = {"replica": {"deployment_id", "replica_id"}, "instance": {"instance_id"}}
MAX_INSTANCES = 25


def check_outputs(sent: Sequence[Sent]) -> None:  # noqa: C901, PLR0915 - one case for each topic
    """Check ids, fields and order of all outputs, and that a window's usage events have no gaps (B4)."""
    changes: dict[tuple[str, str, str], int] = {}
    orders: set[tuple[str, str]] = set()
    host_orders: dict[tuple[str, str, str], int] = {}
    pieces: dict[tuple[str, str], list[tuple[int, int]]] = {}
    ids: set[tuple[str, str]] = set()
    credited: dict[tuple[str, str], list[tuple[int, int]]] = {}
    notices: dict[str, int] = {}
    results: dict[tuple[str, str, str, bool], bytes] = {}
    # Credits last: Kafka has no order across topics, and a credit refers to a usage event.
    for topic, _, key, value, raw in sorted(sent, key=lambda each: each.topic == "croesus.credits"):
        if topic == "dead.letters":
            continue
        assert key == value["org_id"]
        if topic == "lifecycle.changes":
            wrong = {"error_code", "error_message"} if value["kind"] == "instance" else set()
            assert set(value) - wrong - {"from"} == CHANGE_FIELDS
            entity = (key, value["kind"], value["id"])
            changes[entity] = changes.get(entity, 0) + 1
            assert value["event_id"] == f"{value['kind']}:{value['id']}:{changes[entity]}"
        elif topic == "command.results":
            assert set(value) - {"target", "operator"} == RESULT_FIELDS | (
                {"code"} if value["outcome"] == "rejected" else set()
            )
            first = results.setdefault((key, value["command_id"], value["at"], "operator" in value), raw)
            assert raw == first, "a command's result changed"
        elif topic == "execlet.orders":
            job = {"model", "gpu_type", "gpu_count"} if value["order"] == "submit_job" else set()
            assert set(value) == ORDER_FIELDS | {"deployment_id", "replica_id"} | job
            suffix = f":{value['attempt']}" if value["attempt"] > 1 else ""
            assert value["order_id"] == f"{value['replica_id']}:{value['order']}{suffix}"
            assert (key, value["order_id"]) not in orders, "an order was sent twice"
            orders.add((key, value["order_id"]))
        elif topic == "host.orders":
            assert set(value) == ORDER_FIELDS | {"instance_id"}
            kind = (key, value["instance_id"], value["order"])
            host_orders[kind] = host_orders.get(kind, 0) + 1
            assert value["order_id"] == f"{value['instance_id']}:{value['order']}:{host_orders[kind]}"
        elif topic == "croesus.usage":
            meter = BY_TYPE[value["type"]]
            assert set(value) - {"labels"} == USAGE_FIELDS | OWNER_FIELDS[meter.owner]
            assert value["quantity"] == 1 or (value["quantity"] > 1 and meter.unit == "per GB per hour")
            start, end = parse_rfc3339(value["interval_start"]), parse_rfc3339(value["interval_end"])
            assert value["id"] == f"{_meter(value)}:{value['interval_start']}"
            assert (key, value["id"]) not in ids, "a usage id was sent twice"
            ids.add((key, value["id"]))
            assert 0 < value["duration_ms"] == end - start <= 60_000
            assert start // 60_000 == (end - 1) // 60_000, "a piece crosses a clock minute"
            pieces.setdefault((key, value["window_id"]), []).append((start, end))
        elif topic == "croesus.credits":
            assert set(value) - {"labels", "note"} == CREDIT_FIELDS | OWNER_FIELDS[BY_TYPE[value["type"]].owner]
            start, end = parse_rfc3339(value["interval_start"]), parse_rfc3339(value["interval_end"])
            assert value["id"] == f"{value['usage_id']}:credit:{value['interval_start']}"
            assert 0 < value["duration_ms"] == end - start <= 60_000
            [charged] = [piece for piece in pieces[key, value["window_id"]] if piece[0] <= start < piece[1]]
            assert end <= charged[1], "a credit takes back more than its usage event"
            assert value["usage_id"] == f"{_meter(value)}:{rfc3339(charged[0])}"
            taken = credited.setdefault((key, value["window_id"]), [])
            assert all(end <= other[0] or other[1] <= start for other in taken), "a millisecond credited twice"
            taken.append((start, end))
        elif topic == "org.notices":
            assert set(value) - {"threshold_s", "runway_s"} == NOTICE_FIELDS
            notices[key] = notices.get(key, 0) + 1
            assert value["notice_id"] == f"{key}:notice:{notices[key]}"
    for intervals in pieces.values():
        assert all(before[1] == after[0] for before, after in pairwise(intervals)), "a gap, or out of order"


def check_rows(world: World) -> None:
    """Check B12 of every window, R5, I5, and that an instance has a window open for each meter of its stage (I2)."""
    for org_id in world.orgs():
        replicas, instances = world.all("replica", org_id), world.all("instance", org_id)
        for window in [window for owner in (*replicas, *instances) for window in owner["windows"]]:
            _check_figures(window)
        for deployment in world.all("deployment", org_id):
            of_it = [one for one in replicas if one["deployment_id"] == deployment["deployment_id"]]
            running = [one for one in of_it if one["status"] == "running"]
            assert deployment["current_replicas"] == len(running), "R5"
        for instance in instances:
            row = world.row("instances", instance["instance_id"], org_id)
            meters = [meter for meter in METERS_OF["instance"] if row.stage in meter.runs_in and meter.quantity(row)]
            found = [window["meter"] for window in instance["windows"] if window["ended_at"] is None]
            assert sorted(found) == sorted(meter.name for meter in meters), "I2"
            assert instance["meter"] == (meters[0].name if meters else "none")
            assert all(window["last_health_check"] is None for window in instance["windows"])
        assert sum(instance["state"] != "destroyed" for instance in instances) <= MAX_INSTANCES, "I5"


def _check_figures(window: dict[str, Any]) -> None:
    billed, pending = window["billed_ms"], window["pending_ms"]
    forgiven, overbilled = window["forgiven_ms"], window["overbilled_ms"]
    assert min(window["running_ms"], billed, pending, forgiven, overbilled) >= 0, f"B12: {window}"
    assert window["running_ms"] == billed + pending + forgiven - overbilled, f"B12: {window}"


def _meter(value: dict[str, Any]) -> str:
    meter = BY_TYPE[value["type"]]
    owner_id = str(value[f"{meter.owner}_id"])
    return f"{owner_id}:{meter.id_part}" if meter.id_part else owner_id
