"""`faust send`, by topic and by agent, to a worker that runs in a namespace."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys

import pytest

from tests.support import http_get
from tests.support.workers import Installation, Worker
from tools.console import ROOT
from topics.catalogue import COMMANDS, RESULTS

pytestmark = pytest.mark.kafka

DEADLINE_S = 60


async def send(installation: Installation, *arguments: str) -> dict[str, object]:
    """Run the command; return what it prints about the record."""
    command = [sys.executable, "-m", "faust", "-A", "streams.app", "send", *arguments]
    environ = {"PATH": os.environ["PATH"], **installation.environment}
    sent = await asyncio.to_thread(
        subprocess.run, command, cwd=ROOT, env=environ, capture_output=True, text=True, check=False, timeout=DEADLINE_S
    )
    assert sent.returncode == 0, sent.stderr
    said: dict[str, object] = json.loads(sent.stdout)
    return said


async def test_a_command_that_faust_sends_makes_a_deployment(kafka_bootstrap: str, namespace: str) -> None:
    installation = Installation(kafka_bootstrap, namespace, environ={"DEDICATED_BILLING_ENABLED": "0"})
    await installation.provision()
    hardware = {"model": "llama", "gpu_type": "h100", "gpu_count": 1}
    forms = {"by-topic": "user.commands", "by-agent": "@streams.agents.user_commands"}
    with Worker(installation) as worker:
        worker.wait_for("Worker ready")
        for deployment, entity in forms.items():
            command = {
                "command_id": deployment,
                "org_id": "acme",
                "type": "create_deployment",
                "deployment_id": deployment,
                **hardware,
            }
            said = await send(installation, "--key", "acme", entity, json.dumps(command))
            assert said["topic"] == f"{namespace}.user.commands"
            # The same partitioner as every other producer's: no record has to be routed again.
            assert said["partition"] == installation.place(COMMANDS.name, "acme")
        await installation.wait_until_caught_up([worker])
        results = [json.loads(result.value or b"") for result in await installation.read(RESULTS.name)]
        assert [(result["command_id"], result["outcome"]) for result in results] == [
            ("by-topic", "accepted"),
            ("by-agent", "accepted"),
        ]
        # The deployment is a row of Faust's table.
        for deployment in forms:
            row = http_get.get(f"{worker.url}/tables/deployments/acme/{deployment}", DEADLINE_S).json
            assert (row["row"]["status"], row["row"]["model"]) == ("created", "llama")
