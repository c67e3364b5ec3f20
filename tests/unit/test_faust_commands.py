"""Faust's own commands, run as its users run them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from streams.commands import MODELS
from streams.engine.rows import DESCRIPTIONS
from streams.engine.shard import INPUTS
from tools.console import ROOT
from topics.catalogue import TOPICS

DEADLINE_S = 60


def faust(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "faust", "-A", "streams.app", *arguments]
    environ = {"PATH": os.environ["PATH"], "COLUMNS": "300"}
    return subprocess.run(
        command, cwd=ROOT, env=environ, capture_output=True, text=True, check=False, timeout=DEADLINE_S
    )


def rows(*arguments: str) -> Any:
    """What a command says with `--json`."""
    given = faust("--json", *arguments)
    assert given.returncode == 0, given.stderr
    return json.loads(given.stdout)


def test_agents_are_listed_with_topic_and_help() -> None:
    found = {row["name"]: row for row in rows("agents")}
    assert {row["topic"] for row in found.values()} == set(INPUTS)
    assert found["@streams.agents.execlet_heartbeats"] == {
        "name": "@streams.agents.execlet_heartbeats",
        "topic": "execlet.heartbeats",
        "help": "Read heartbeats of replicas, which bound what is billed (B2, B3).",
    }
    # To be read by people, too.
    table = faust("agents")
    assert all(name in table.stdout and row["help"] in table.stdout for name, row in found.items()), table.stderr


def test_tables_are_listed_with_help() -> None:
    found = {row["name"]: row["help"] for row in rows("tables")}
    assert found == DESCRIPTIONS
    assert found["replicas"] == "A replica (R1)."


def test_models_are_the_messages_of_every_topic() -> None:
    found = rows("models")
    assert {row["topic"] for row in found} == set(TOPICS)
    assert {row["name"] for row in found} == set(MODELS)
    assert all(row["help"] for row in found)
    assert {row["name"] for row in found if row["topic"] == "user.commands"} == {
        "CreateDeployment",
        "StopDeployment",
        "DeployInstance",
        "StartInstance",
        "StopInstance",
        "DestroyInstance",
    }


def test_a_model_is_shown_with_the_type_and_default_of_each_field() -> None:
    found = {row["field"]: (row["type"], row["default"]) for row in rows("model", "CreateDeployment")}
    assert found["deployment_id"] == ("str", "*")
    assert found["serving"] == ("Literal['dedicated', 'serverless']", "'dedicated'")
    assert found["idle_timeout_s"] == ("int | None", "None")


def test_an_unknown_model_is_refused_in_one_line() -> None:
    refused = faust("model", "Nothing")
    assert refused.returncode == 2
    assert "there is no model 'Nothing'; there are Price, " in refused.stderr
    assert "Traceback" not in refused.stderr


@pytest.mark.parametrize("command", ["models", "model", "send"])
def test_a_command_explains_itself(command: str) -> None:
    said = faust(command, "--help")
    assert (said.returncode, said.stderr) == (0, "")
    assert said.stdout.startswith(f"Usage: python -m faust {command}")
