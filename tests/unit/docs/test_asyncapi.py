"""The AsyncAPI document against the official schema of AsyncAPI 3.0, the catalogue and the contract."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

from tests.unit.docs.npm import official_schema
from tools.console import ROOT
from topics.catalogue import TOPICS

DOCUMENT: dict[str, Any] = json.loads((ROOT / "docs/asyncapi.json").read_text(encoding="utf-8"))

# The messages of each channel, written by hand from the contract.
MESSAGES = {
    "croesus.prices": {"Price"},
    "croesus.accounts": {"BalanceUpdated", "OrgSuspended", "OrgReinstated"},
    "user.commands": {
        "CreateDeployment",
        "StopDeployment",
        "DeployInstance",
        "StartInstance",
        "StopInstance",
        "DestroyInstance",
    },
    "operator.commands": {"CreditWindow"},
    "inference.requests": {"InferenceRequest"},
    "execlet.progress": {"Progress"},
    "host.reports": {"LaunchFailed", "OtherReport"},
    "execlet.heartbeats": {"Heartbeat"},
    "obol.clock": {"Tick"},
    "croesus.usage": {"Usage"},
    "croesus.credits": {"Credit"},
    "org.notices": {"Notice"},
    "lifecycle.changes": {"LifecycleChange"},
    "command.results": {"CommandResult"},
    "execlet.orders": {"ExecletOrder"},
    "host.orders": {"HostOrder"},
    "dead.letters": {"DeadLetter"},
}
IN = tuple(MESSAGES)[:9]


def test_the_document_matches_the_official_schema() -> None:
    schema = official_schema(
        "@asyncapi/specs",
        "6.11.1",
        "A3WBLqAKGoJ2+6FWFtpjBlCQ1oFCcs4GxF7zsIGvNqp/klGUHjlA3aAcZ9XMMpLGE8zPeYDz2x9FmO6DSuKraQ==",
        "schemas/3.0.0-without-$id.json",
    )
    jsonschema.Draft7Validator(schema).validate(DOCUMENT)


def test_every_topic_is_a_channel_with_its_messages() -> None:
    found = {name: set(channel["messages"]) for name, channel in DOCUMENT["channels"].items()}
    assert found == MESSAGES
    assert all(channel["address"] == name for name, channel in DOCUMENT["channels"].items())


def test_obol_receives_inputs_and_sends_outputs() -> None:
    actions = {
        operation["channel"]["$ref"].removeprefix("#/channels/"): operation["action"]
        for operation in DOCUMENT["operations"].values()
    }
    assert actions == {name: "receive" if name in IN else "send" for name in MESSAGES}


def test_ranks_are_the_contracts() -> None:
    ranks = {name: channel.get("x-obol-rank") for name, channel in DOCUMENT["channels"].items()}
    assert ranks == {name: IN.index(name) if name in IN else None for name in MESSAGES}


def test_retention_is_the_catalogues() -> None:
    for name, channel in DOCUMENT["channels"].items():
        config = channel["bindings"]["kafka"]["topicConfiguration"]
        assert config["cleanup.policy"] == ["delete"]
        assert config["retention.ms"] == TOPICS[name].retention_ms
    assert DOCUMENT["channels"]["croesus.prices"]["bindings"]["kafka"]["partitions"] == 1


def references(part: Any) -> list[str]:
    if isinstance(part, list):
        return [found for inner in part for found in references(inner)]
    if not isinstance(part, dict):
        return []
    own = [part["$ref"]] if isinstance(part.get("$ref"), str) else []
    return own + [found for inner in part.values() for found in references(inner)]


@pytest.mark.parametrize("name", ["asyncapi.json", "openapi.json"])
def test_every_reference_leads_somewhere(name: str) -> None:
    document = json.loads((ROOT / "docs" / name).read_text(encoding="utf-8"))
    found = set(references(document))
    assert len(found) > 20
    for reference in found:
        place: Any = document
        for step in reference.removeprefix("#/").split("/"):
            place = place[step.replace("~1", "/").replace("~0", "~")]


def test_fields_of_a_command() -> None:
    schema = DOCUMENT["components"]["schemas"]["CreateDeployment"]
    assert schema["required"] == ["type", "command_id", "org_id", "deployment_id", "model", "gpu_type", "gpu_count"]
    assert set(schema["properties"]) - set(schema["required"]) == {
        "labels",
        "serving",
        "min_replicas",
        "idle_timeout_s",
    }
    assert schema["properties"]["gpu_count"]["maximum"] == 16
    assert schema["properties"]["type"]["const"] == "create_deployment"
