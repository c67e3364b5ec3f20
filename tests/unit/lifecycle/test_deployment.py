"""Every status of a deployment x every trigger (P1, P3, P4, P6, P7, B22)."""

import pytest

from streams.lifecycle.deployment import MACHINE, TERMINAL, DeploymentStatus, Trigger
from streams.lifecycle.machine import Stay

# "-": no transition. A request to a created deployment starts replicas (P7 D) but does not change its status; a
# suspension does not change a paused one (B22 D).
EXPECTED = {
    "created": {
        "stop": "stopped",
        "idle": "paused",
        "request": "-",
        "replicas_failed": "failed",
        "org_suspended": "stopped",
    },
    "paused": {
        "stop": "stopped",
        "idle": "-",
        "request": "created",
        "replicas_failed": "-",
        "org_suspended": "-",
    },
    "failed": {"stop": "-", "idle": "-", "request": "-", "replicas_failed": "-", "org_suspended": "-"},
    "stopped": {"stop": "-", "idle": "-", "request": "-", "replicas_failed": "-", "org_suspended": "-"},
}

CASES = [(status, trigger, to) for status, row in EXPECTED.items() for trigger, to in row.items()]


@pytest.mark.parametrize(("status", "trigger", "to"), CASES)
def test_every_status_meets_every_trigger(status: str, trigger: str, to: str) -> None:
    move = MACHINE.step(DeploymentStatus(status), Trigger(trigger))
    assert ("-" if isinstance(move, Stay) else move) == to


def test_the_table_is_complete() -> None:
    assert set(EXPECTED) == set(DeploymentStatus)
    assert all(set(row) == set(Trigger) for row in EXPECTED.values())


def test_failed_and_stopped_are_terminal_and_paused_is_not() -> None:
    assert {"failed", "stopped"} == TERMINAL
