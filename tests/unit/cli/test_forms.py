from __future__ import annotations

from typing import Any

import pytest

from schemas.accounts import Account, OrgSuspended
from schemas.commands import Command, CreateDeployment, DeployInstance
from schemas.heartbeats import Heartbeat
from schemas.reports import LaunchFailed
from streams.cli.forms import body, fields, in_options, models_of
from topics.catalogue import TOPICS


def options(model: Any, **fixed: str) -> list[str]:
    return [option for field in fields(model, without=fixed) for option in field.options]


def test_every_field_is_an_option_and_an_id_has_a_short_name() -> None:
    assert options(Heartbeat) == ["--org", "--org-id", "--replica", "--replica-id"]
    assert options(OrgSuspended) == ["--event", "--event-id", "--org", "--org-id"]


def test_what_is_fixed_or_constant_is_no_option() -> None:
    assert "--type" not in options(CreateDeployment)
    assert "--report" not in options(LaunchFailed)


def test_nested_objects_are_flat_and_switches_have_an_opposite() -> None:
    found = options(DeployInstance)
    assert {"--template-mode", "--template-image", "--gpus-releasable/--no-gpus-releasable"} <= set(found)


def test_what_is_needed_and_what_is_made() -> None:
    needed = {field.option for field in fields(CreateDeployment) if field.needed}
    assert needed == {"--org", "--deployment", "--model", "--gpu-type", "--gpu-count"}
    helps = {field.option: field.help for field in fields(CreateDeployment)}
    assert helps["--command"].endswith("(made when not given)")
    assert helps["--gpu-count"] == "GPUs, 1 to 16. (needed)"
    assert helps["--min-replicas"].endswith("(default: 1)")


def test_a_body_holds_what_was_given() -> None:
    values = {"org_id": "acme", "template_mode": "ssh", "template_image": "ubuntu", "disk_gb": 0, "gpu_type": None}
    assert body(fields(DeployInstance), values) == {
        "org_id": "acme",
        "disk_gb": 0,
        "template": {"mode": "ssh", "image": "ubuntu"},
    }


@pytest.mark.parametrize(
    ("error", "told"),
    [
        ("org_id: field required", "--org: is needed"),
        (
            "gpu_count: input should be at most 16",
            "--gpu-count: input should be at most 16",
        ),
        ("template: field required", "--template-mode: is needed"),
        (
            "template.image: field required; disk_gb: bad",
            "--template-image: is needed; --disk-gb: bad",
        ),
    ],
)
def test_errors_name_options(error: str, told: str) -> None:
    assert in_options(error, fields(DeployInstance)) == told


def test_models_of_a_union_and_of_one() -> None:
    assert len(models_of(Command)) == 6
    assert len(models_of(Account)) == 3
    assert models_of(Heartbeat) == (Heartbeat,)


@pytest.mark.parametrize("topic", [name for name, spec in TOPICS.items() if spec.direction == "in"])
def test_every_inbound_model_makes_a_form(topic: str) -> None:
    for model in models_of(TOPICS[topic].schema):
        assert all(field.help for field in fields(model)), model
