from __future__ import annotations

from typing import Any

import pytest

from schemas.accounts import Account, OrgSuspended
from schemas.commands import Command, CreateDeployment, DeployInstance
from schemas.heartbeats import Heartbeat
from schemas.reports import LaunchFailed
from streams.cli.forms import body, fields, models_of, with_option_names
from topics.catalogue import TOPICS


def options(model: Any, **fixed: str) -> list[str]:
    return [option for field in fields(model, without=fixed) for option in field.options]


def test_every_field_is_an_option_and_an_id_has_a_short_name() -> None:
    assert options(Heartbeat) == ["--org", "--org-id", "--replica", "--replica-id"]
    assert options(OrgSuspended) == ["--event", "--event-id", "--org", "--org-id"]


def test_fixed_and_constant_fields_are_not_options() -> None:
    assert "--type" not in options(CreateDeployment)
    assert "--report" not in options(LaunchFailed)


def test_nested_fields_are_options_and_booleans_have_a_negation() -> None:
    found = options(DeployInstance)
    assert {"--template-mode", "--template-image", "--gpus-releasable/--no-gpus-releasable"} <= set(found)


def test_required_and_generated_options() -> None:
    required = {field.option for field in fields(CreateDeployment) if field.required}
    assert required == {"--org", "--deployment", "--model", "--gpu-type", "--gpu-count"}
    helps = {field.option: field.help for field in fields(CreateDeployment)}
    assert helps["--command"].endswith("(default: generated)")
    assert helps["--gpu-count"] == "Number of GPUs, 1 to 16. (required)"
    assert helps["--min-replicas"].endswith("(default: 1)")


def test_a_body_has_the_given_values() -> None:
    values = {"org_id": "acme", "template_mode": "ssh", "template_image": "ubuntu", "disk_gb": 0, "gpu_type": None}
    assert body(fields(DeployInstance), values) == {
        "org_id": "acme",
        "disk_gb": 0,
        "template": {"mode": "ssh", "image": "ubuntu"},
    }


@pytest.mark.parametrize(
    ("error", "message"),
    [
        ("org_id: field required", "--org: is required"),
        (
            "gpu_count: input should be at most 16",
            "--gpu-count: input should be at most 16",
        ),
        ("template: field required", "--template-mode: is required"),
        (
            "template.image: field required; disk_gb: bad",
            "--template-image: is required; --disk-gb: bad",
        ),
    ],
)
def test_errors_name_options(error: str, message: str) -> None:
    assert with_option_names(error, fields(DeployInstance)) == message


def test_models_of_a_union_and_of_one() -> None:
    assert len(models_of(Command)) == 6
    assert len(models_of(Account)) == 3
    assert models_of(Heartbeat) == (Heartbeat,)


@pytest.mark.parametrize("topic", [name for name, spec in TOPICS.items() if spec.direction == "in"])
def test_every_input_model_has_a_form_with_help(topic: str) -> None:
    for model in models_of(TOPICS[topic].schema):
        assert all(field.help for field in fields(model)), model
