"""The contract's In: keys, transactions and compression of producers, and invalid prices."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.contract import INBOUND
from tests.support.outside import MINUTE_MS, rfc3339

if TYPE_CHECKING:
    from tests.support.outside import Outside

pytestmark = pytest.mark.kafka


def test_transactions_of_others_are_applied_when_committed(obol: Outside) -> None:
    org_id = obol.new_id("bank")

    def price(amount: str) -> tuple[str, dict[str, Any]]:
        return "croesus.prices", {"profile": "dedicated.together.1x", "price": amount, "currency": "JPY"}

    def create(deployment_id: str) -> tuple[str, dict[str, Any]]:
        body = {"command_id": f"make-{deployment_id}", "org_id": org_id, "type": "create_deployment"}
        fields = {"deployment_id": deployment_id, "model": "m", "gpu_type": "together", "gpu_count": 1}
        return "user.commands", {**body, **fields}

    balance = {"event_id": "e", "org_id": org_id, "type": "balance_updated"}
    obol.advance(MINUTE_MS - obol.now % MINUTE_MS)
    obol.send_together([price("60")], commit=True)
    obol.send_together([price("99")], commit=False)
    obol.send_together([("croesus.accounts", {**balance, "balance": "1"}), create("kept")], commit=True)
    obol.send_together([("croesus.accounts", {**balance, "balance": "9"}), create("gone")], commit=False)
    obol.progress(org_id, "kept-r1", "RUNNING", "healthy")
    obol.advance(MINUTE_MS)
    obol.heartbeat(org_id, "kept-r1")
    obol.tick()

    def windows() -> list[dict[str, Any]]:
        replica = obol.get(f"/orgs/{org_id}/replicas/kept-r1")
        return replica.json["windows"] if replica.status == 200 else []

    # Not the org's `as_of`: the heartbeat, which comes before the tick, has the same time.
    obol.until(lambda: [w["billed_ms"] for w in windows()] == [MINUTE_MS], "the tick behind the transactions")
    assert obol.get(f"/orgs/{org_id}").json["burn_per_hour"] == "60"
    assert obol.get(f"/orgs/{org_id}").json["balance"] == "1"
    deployments = obol.get(f"/orgs/{org_id}/deployments").json["items"]
    assert [deployment["deployment_id"] for deployment in deployments] == ["kept"]


def test_a_record_without_a_time_is_a_dead_letter(obol: Outside) -> None:
    here = obol.partition_of("timeless")
    value = {"event_id": "e", "org_id": "timeless", "type": "tick", "replica_id": "r-r1"}
    obol.tick()
    obol.wait_until_applied()
    seen = len(obol.out("dead.letters"))
    for topic in INBOUND:
        obol.send_untimed(topic, json.dumps(value).encode(), here, -5)
    obol.advance(1)
    obol.tick()
    obol.wait_until_applied()
    letters = obol.out("dead.letters")[seen:]
    assert sorted(r.body["topic"] for r in letters) == sorted(INBOUND)
    assert {(r.body["timestamp"], r.body["reason"]) for r in letters} == {(-5, "invalid")}
    assert all(r.timestamp >= 0 for r in letters)
    assert obol.get("/").status == 200


def test_a_price_without_a_time_is_ignored(obol: Outside) -> None:
    good = {"profile": "timeless.price", "price": "1", "currency": "JPY"}
    obol.send_untimed("croesus.prices", json.dumps(good).encode(), 0, -5)
    obol.advance(1)
    obol.price("timely.price", "1")
    obol.until(lambda: obol.get("/prices").json["as_of"] == rfc3339(obol.now), "the price behind it")
    profiles = {item["profile"] for item in obol.get("/prices?limit=1000").json["items"]}
    assert "timely.price" in profiles
    assert "timeless.price" not in profiles
