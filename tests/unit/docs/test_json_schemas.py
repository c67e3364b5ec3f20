"""The JSON Schemas accept the same values as the codec."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

from schemas.usage import Usage
from tools.console import ROOT
from topics.catalogue import TOPICS, USAGE
from topics.codec import Rejected, decode, encode

COMMAND = {"type": "stop_instance", "command_id": "c1", "org_id": "acme", "instance_id": "i1"}
CREATE = {
    "type": "create_deployment",
    "command_id": "c1",
    "org_id": "acme",
    "deployment_id": "chat",
    "model": "llama",
    "gpu_type": "h100",
    "gpu_count": 8,
}
RENT = {
    "type": "deploy_instance",
    "command_id": "c1",
    "org_id": "acme",
    "instance_id": "i1",
    "offer_id": "o1",
    "gpu_type": "a100",
    "gpu_count": 1,
    "disk_gb": 100,
    "template": {"mode": "ssh", "image": "ubuntu"},
}
REPORT = {"event_id": "e1", "org_id": "acme", "instance_id": "i1", "report": "workload_up"}
PROGRESS = {"event_id": "e1", "org_id": "acme", "replica_id": "chat-r1", "status": "RUNNING"}
BALANCE = {"type": "balance_updated", "event_id": "e1", "org_id": "acme", "balance": "-12.50"}
PRICE = {"profile": "disk", "price": "0.1", "currency": "JPY"}

# (topic, value, whether the contract accepts it)
VALUES: list[tuple[str, Any, bool]] = [
    ("user.commands", COMMAND, True),
    ("user.commands", {**COMMAND, "unheard_of": [1]}, True),
    ("user.commands", {**COMMAND, "type": "fly"}, False),
    ("user.commands", {**COMMAND, "org_id": None}, False),
    ("user.commands", {**COMMAND, "org_id": "-acme"}, False),
    ("user.commands", {**COMMAND, "instance_id": "i" * 112}, True),
    ("user.commands", {**COMMAND, "instance_id": "i" * 113}, False),
    ("user.commands", CREATE, True),
    ("user.commands", {**CREATE, "min_replicas": None, "serving": None, "idle_timeout_s": None}, True),
    ("user.commands", {**CREATE, "min_replicas": 101}, False),
    ("user.commands", {**CREATE, "gpu_count": 17}, False),
    ("user.commands", {**CREATE, "gpu_count": True}, False),
    ("user.commands", {**CREATE, "gpu_count": "8"}, False),
    ("user.commands", {**CREATE, "serving": "both"}, False),
    ("user.commands", {**CREATE, "idle_timeout_s": 0}, False),
    ("user.commands", {key: value for key, value in CREATE.items() if key != "type"}, False),
    ("user.commands", RENT, True),
    ("user.commands", {**RENT, "gpus_releasable": None}, True),
    ("user.commands", {**RENT, "gpus_releasable": 1}, False),
    ("user.commands", {**RENT, "template": {"mode": "ssh"}}, False),
    ("user.commands", {**RENT, "template": {"mode": "telnet", "image": "ubuntu"}}, False),
    ("user.commands", {**RENT, "disk_gb": 65_537}, False),
    ("host.reports", REPORT, True),
    ("host.reports", {**REPORT, "report": "launch_failed", "reached_host": False}, True),
    ("host.reports", {**REPORT, "report": "launch_failed", "reached_host": "no"}, False),
    ("host.reports", {**REPORT, "reached_host": "no"}, True),
    ("host.reports", {**REPORT, "report": "moved"}, False),
    ("host.reports", {**REPORT, "message": "x" * 5_000}, True),
    ("execlet.progress", PROGRESS, True),
    ("execlet.progress", {**PROGRESS, "message": None}, True),
    ("execlet.progress", {**PROGRESS, "status": "running"}, False),
    ("execlet.heartbeats", {"org_id": "acme", "replica_id": "chat-r1"}, True),
    ("execlet.heartbeats", {"org_id": "acme"}, False),
    ("execlet.heartbeats", [], False),
    ("croesus.accounts", BALANCE, True),
    ("croesus.accounts", {**BALANCE, "sequence": 7}, True),
    ("croesus.accounts", {**BALANCE, "sequence": 2**63}, False),
    ("croesus.accounts", {**BALANCE, "balance": 12.5}, False),
    ("croesus.accounts", {**BALANCE, "balance": "1e3"}, False),
    ("croesus.accounts", {"type": "org_suspended", "event_id": "e1", "org_id": "acme"}, True),
    ("croesus.prices", PRICE, True),
    ("croesus.prices", {**PRICE, "price": "-1"}, False),
    ("inference.requests", {"org_id": "acme", "deployment_id": "chat"}, True),
    ("inference.requests", {"org_id": "acme", "deployment_id": "chat", "count": 0}, False),
    ("obol.clock", {"type": "tick"}, True),
    ("obol.clock", {}, False),
]


def schema_of(topic: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((ROOT / f"docs/schemas/{topic}.json").read_text(encoding="utf-8"))
    return found


@pytest.mark.parametrize("topic", TOPICS)
def test_each_schema_is_valid(topic: str) -> None:
    jsonschema.Draft202012Validator.check_schema(schema_of(topic))


@pytest.mark.parametrize(("topic", "value", "good"), VALUES)
def test_schema_and_codec_agree_with_the_contract(topic: str, value: Any, good: bool) -> None:  # noqa: FBT001
    assert jsonschema.Draft202012Validator(schema_of(topic)).is_valid(value) is good
    assert isinstance(decode(TOPICS[topic], json.dumps(value).encode()), Rejected) is not good


def test_outputs_match_their_schema_and_have_no_null() -> None:
    event = Usage(
        id="i1:disk:1970-01-01T00:01:00.000Z",
        type="instance_disk_stopped",
        org_id="acme",
        instance_id="i1",
        window_id="i1.disk.w1",
        profile="disk",
        quantity=100,
        interval_start="1970-01-01T00:01:00.000Z",
        interval_end="1970-01-01T00:01:30.000Z",
        duration_ms=30_000,
    )
    value = json.loads(encode(event))
    validator = jsonschema.Draft202012Validator(schema_of(USAGE.name))
    validator.validate(value)
    assert not validator.is_valid({**value, "replica_id": None})
    assert not validator.is_valid({**value, "interval_end": "1970-01-01T00:01:30Z"})


def test_a_change_has_the_field_from() -> None:
    properties = schema_of("lifecycle.changes")["properties"]
    assert "from" in properties
    assert "from_" not in properties
