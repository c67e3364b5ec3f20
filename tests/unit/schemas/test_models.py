"""The models: defaults, null, unknown fields, immutability and JSON schemas."""

import importlib
import json
import pkgutil
from typing import Any

import jsonschema
import pytest
from pydantic import TypeAdapter, ValidationError

import schemas
from schemas.accounts import Account, BalanceUpdated
from schemas.base import Wire
from schemas.changes import LifecycleChange
from schemas.clock import Tick
from schemas.commands import Command, StopDeployment
from schemas.heartbeats import Heartbeat
from schemas.operator import OperatorCommand
from schemas.progress import Progress
from schemas.reports import LaunchFailed, OtherReport, Report
from schemas.requests import InferenceRequest
from topics.catalogue import TOPICS

CREATE = {
    "type": "create_deployment",
    "command_id": "c",
    "org_id": "o",
    "deployment_id": "d",
    "model": "m",
    "gpu_type": "h100",
    "gpu_count": 1,
}
DEPLOY = {
    "type": "deploy_instance",
    "command_id": "c",
    "org_id": "o",
    "instance_id": "i",
    "offer_id": "f",
    "gpu_type": "h100",
    "gpu_count": 1,
    "disk_gb": 10,
    "template": {"mode": "ssh", "image": "ubuntu"},
}
PROGRESS = {"event_id": "e", "org_id": "o", "replica_id": "r", "status": "RUNNING"}
LAUNCH_FAILED = {"event_id": "e", "org_id": "o", "instance_id": "i", "report": "launch_failed"}
CREDIT = {
    "type": "credit_window",
    "command_id": "c",
    "org_id": "o",
    "window_id": "r.w1",
    "from": "2026-11-29T12:00:00Z",
    "until": "2026-11-29T12:01:00Z",
}
BALANCE = {"event_id": "e", "type": "balance_updated", "org_id": "o", "balance": "1"}
REQUEST = {"org_id": "o", "deployment_id": "d"}

OPTIONAL = [
    (Command, CREATE, "serving", "dedicated", "serverless"),
    (Command, CREATE, "min_replicas", 1, 100),
    (Command, CREATE, "idle_timeout_s", None, 31_536_000),
    (Command, DEPLOY, "gpus_releasable", True, False),
    (Command, CREATE, "labels", {}, {"team": "nlp"}),
    (Command, DEPLOY, "labels", {}, {"team": ""}),
    (Progress, PROGRESS, "message", "", "healthy"),
    (Progress, PROGRESS, "healthy", None, False),
    (Report, LAUNCH_FAILED, "reached_host", True, False),
    (Report, LAUNCH_FAILED, "message", None, "no route"),
    (Account, BALANCE, "sequence", None, -5),
    (Account, BALANCE, "epoch", 0, 7),
    (OperatorCommand, CREDIT, "note", None, "n"),
    (InferenceRequest, REQUEST, "count", 1, 9_223_372_036_854_775_807),
]


def parse(schema: Any, record: dict[str, Any]) -> Any:
    return TypeAdapter(schema).validate_json(json.dumps(record))


def refuses(schema: Any, record: dict[str, Any]) -> bool:
    try:
        parse(schema, record)
    except ValidationError:
        return True
    return False


@pytest.mark.parametrize(("schema", "record", "name", "default", "other"), OPTIONAL)
def test_an_optional_field_is_its_default_when_absent_or_null(
    schema: Any, record: dict[str, Any], name: str, default: object, other: object
) -> None:
    assert getattr(parse(schema, record), name) == default
    assert getattr(parse(schema, record | {name: None}), name) == default
    assert getattr(parse(schema, record | {name: other}), name) == other
    assert refuses(schema, record | {name: [other]})


@pytest.mark.parametrize(
    ("schema", "record"),
    [
        (Command, CREATE),
        (Command, DEPLOY),
        (Progress, PROGRESS),
        (Report, LAUNCH_FAILED),
        (Account, BALANCE),
        (OperatorCommand, CREDIT),
        (InferenceRequest, REQUEST),
        (Heartbeat, {"org_id": "o", "replica_id": "r"}),
        (Tick, {"type": "tick"}),
    ],
)
def test_a_required_field_that_is_absent_or_null_is_refused(schema: Any, record: dict[str, Any]) -> None:
    assert not refuses(schema, record)
    for name in record:
        assert refuses(schema, {key: value for key, value in record.items() if key != name})
        assert refuses(schema, record | {name: None})


@pytest.mark.parametrize(
    ("record", "name", "low", "high"),
    [
        (CREATE, "gpu_count", 1, 16),
        (CREATE, "min_replicas", 0, 100),
        (CREATE, "idle_timeout_s", 1, 31_536_000),
        (DEPLOY, "gpu_count", 1, 16),
        (DEPLOY, "disk_gb", 1, 65_536),
    ],
)
def test_bounds(record: dict[str, Any], name: str, low: int, high: int) -> None:
    assert [refuses(Command, record | {name: value}) for value in (low - 1, low, high, high + 1)] == [
        True,
        False,
        False,
        True,
    ]
    assert all(refuses(Command, record | {name: value}) for value in (1.0, True, "1"))


LABELS = [
    ({}, False),
    ({f"k{number}": "v" for number in range(16)}, False),
    ({f"k{number}": "v" for number in range(17)}, True),
    ({"k": "v"}, False),
    ({"K9._/-": "v"}, False),
    ({"0": "v"}, False),
    ({"k" * 63: "v"}, False),
    ({"k" * 64: "v"}, True),
    ({"": "v"}, True),
    ({"k": ""}, False),
    ({"k": "v" * 255}, False),
    ({"k": "v" * 256}, True),
    ({"k": "é" * 255}, False),
    ({"k": "line\nbreak \x00 \U0001f680 \u202e"}, False),
    *(({key: "v"}, True) for key in (".k", "_k", "/k", "-k", "k k", " k", "k\n", "k=v", "k:v", "k,v", "é", "k\u0661")),
    *(({"k": value}, True) for value in (None, 1, 1.5, True, ["v"], {"a": "b"})),
    (["k"], True),
    ("k=v", True),
    (0, True),
]


@pytest.mark.parametrize(("labels", "refused"), LABELS)
@pytest.mark.parametrize("record", [CREATE, DEPLOY])
def test_labels_have_limits(record: dict[str, Any], labels: object, refused: bool) -> None:  # noqa: FBT001 - a table
    assert refuses(Command, record | {"labels": labels}) is refused


@pytest.mark.parametrize(
    ("name", "value", "refused"),
    [
        ("note", "n" * 512, False),
        ("note", "n" * 513, True),
        ("note", "", True),
        ("window_id", "w" * 128, False),
        ("window_id", "w" * 129, True),
        ("window_id", "-w", True),
        ("from", "2026-11-29T12:01:00Z", True),
        ("from", "2026-11-29T12:00:59.999Z", False),
        ("from", "2026-11-29T13:01:00+01:00", True),
        ("from", "2026-11-29T13:00:59.999+01:00", False),
        ("from", "0001-01-01T00:00:00+23:59", False),
        ("until", "9999-12-31T23:59:59.999-23:59", False),
        ("until", "2026-11-29T12:00:00Z", True),
        ("until", "2026-11-29T12:00:00.001Z", False),
        ("from", 1_795_953_600_000, True),
        ("type", "credit", True),
    ],
)
def test_a_credit_has_limits(name: str, value: object, refused: bool) -> None:  # noqa: FBT001 - a table
    assert refuses(OperatorCommand, CREDIT | {name: value}) is refused


@pytest.mark.parametrize("healthy", [0, 1, "true", "", [], {}])
def test_healthy_is_a_boolean(healthy: object) -> None:
    assert refuses(Progress, PROGRESS | {"healthy": healthy})


def test_a_count_is_at_least_1_and_64_bits() -> None:
    assert [refuses(InferenceRequest, REQUEST | {"count": count}) for count in (0, 1, 2**63 - 1, 2**63)] == [
        True,
        False,
        False,
        True,
    ]


def test_unknown_fields_and_fields_of_another_type_are_ignored() -> None:
    stop = {
        "type": "stop_instance",
        "command_id": "c",
        "org_id": "o",
        "instance_id": "i",
        "disk_gb": "no number",
        "new": {},
    }
    assert "disk_gb" not in parse(Command, stop).model_fields_set
    report = parse(Report, {**LAUNCH_FAILED, "report": "workload_up", "reached_host": 7})
    assert isinstance(report, OtherReport)
    assert isinstance(parse(Report, LAUNCH_FAILED), LaunchFailed)


def test_every_report_name_of_the_contract_and_no_other() -> None:
    names = [
        "workload_up",
        "launch_failed",
        "stop_confirmed",
        "start_refused",
        "start_unreachable",
        "gpus_unavailable",
        "workload_failed",
        "workload_lost",
        "workload_completed",
        "workload_gone",
        "found_running",
        "found_held",
        "teardown_finished",
    ]
    assert [parse(Report, LAUNCH_FAILED | {"report": name}).report for name in names] == names
    assert refuses(Report, LAUNCH_FAILED | {"report": "workload_down"})


def test_models_are_immutable() -> None:
    heartbeat = Heartbeat(org_id="o", replica_id="r")
    with pytest.raises(ValidationError, match="frozen"):
        heartbeat.org_id = "p"  # type: ignore[misc]


def test_a_change_has_the_field_from_on_the_wire() -> None:
    change = LifecycleChange(
        event_id="replica:r:2",
        org_id="o",
        kind="replica",
        id="r",
        from_="running",
        to="stopped",
        reason="user",
        at="2026-11-29T12:00:00.000Z",
    )
    text = change.model_dump_json(exclude_none=True, by_alias=True)
    assert json.loads(text)["from"] == "running"
    assert LifecycleChange.model_validate_json(text) == change


def test_the_discriminator_has_a_default_in_code() -> None:
    assert BalanceUpdated(event_id="e", org_id="o", balance="-3.5").type == "balance_updated"
    stop = StopDeployment(command_id="c", org_id="o", deployment_id="d")
    assert parse(Command, stop.model_dump()) == stop


def models() -> list[type[Wire]]:
    found: set[type[Wire]] = set()
    for module in pkgutil.iter_modules(schemas.__path__, "schemas."):
        for value in vars(importlib.import_module(module.name)).values():
            if isinstance(value, type) and issubclass(value, Wire) and value is not Wire:
                found.add(value)
    return sorted(found, key=lambda model: model.__name__)


@pytest.mark.parametrize("model", models())
def test_every_model_and_field_is_described(model: type[Wire]) -> None:
    schema = model.model_json_schema()
    assert schema["description"]
    undescribed = {name for name, field in schema["properties"].items() if "description" not in field} - {"type"}
    assert not undescribed


@pytest.mark.parametrize("name", sorted(TOPICS))
def test_every_topic_has_a_valid_json_schema(name: str) -> None:
    jsonschema.Draft202012Validator.check_schema(TypeAdapter(TOPICS[name].schema).json_schema())


@pytest.mark.parametrize(("schema", "record", "name", "_", "other"), OPTIONAL)
def test_json_schemas_agree_with_the_models(schema: Any, record: dict[str, Any], name: str, _: Any, other: Any) -> None:
    validator = jsonschema.Draft202012Validator(TypeAdapter(schema).json_schema())
    assert validator.is_valid(record)
    assert validator.is_valid(record | {name: None})
    assert validator.is_valid(record | {name: other})
    assert not validator.is_valid(record | {name: [other]})
    for required in record:
        assert not validator.is_valid({key: value for key, value in record.items() if key != required})
