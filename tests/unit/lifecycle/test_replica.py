"""Every status of a replica x every callback (R1 to R4). The table is written from the rules, not from the code."""

import pytest

from streams.lifecycle.machine import Stay
from streams.lifecycle.replica import MACHINE, FailReason, ReplicaStatus, ReplicaTransition, Signal, read_signal

# The callbacks: an execlet's status and message.
PULL = ("STARTING", "Pulling image...")
SERVER = ("STARTING", "Model server is starting...")
HEALTHY = ("RUNNING", "All containers are healthy")
RESTART = ("RESTARTING", "")
FAILED = ("FAILED", "exit 1")
SYSTEM = ("SYSTEM_FAILURE", "OOM")
CRASH = ("VM_CRASH", "")

# What each does: the status it leads to ("!": fatal for the deployment, with the fail reason), "-": changes nothing,
# "heartbeat": changes nothing, but counts as a heartbeat (B2 D).
EXPECTED = {
    "pending": {
        PULL: "pulling_docker_image",
        SERVER: "initing_docker_container",
        HEALTHY: "running",
        RESTART: "-",
        FAILED: "failed! image_pull_failed",
        SYSTEM: "failed container_crashed",
        CRASH: "failed container_crashed",
    },
    "pulling_docker_image": {
        PULL: "-",
        SERVER: "initing_docker_container",
        HEALTHY: "running",
        RESTART: "-",
        FAILED: "failed! image_pull_failed",
        SYSTEM: "failed container_crashed",
        CRASH: "failed container_crashed",
    },
    "initing_docker_container": {
        PULL: "-",
        SERVER: "-",
        HEALTHY: "running",
        RESTART: "-",
        FAILED: "failed! container_init_failed",
        SYSTEM: "failed container_crashed",
        CRASH: "failed container_crashed",
    },
    "running": {
        PULL: "-",
        SERVER: "-",
        HEALTHY: "heartbeat",
        RESTART: "restarting",
        FAILED: "failed container_crashed",
        SYSTEM: "failed container_crashed",
        CRASH: "failed container_crashed",
    },
    "restarting": {
        PULL: "-",
        SERVER: "-",
        HEALTHY: "running",
        RESTART: "-",
        FAILED: "failed container_crashed",
        SYSTEM: "failed container_crashed",
        CRASH: "failed container_crashed",
    },
    "failed": dict.fromkeys((PULL, SERVER, HEALTHY, RESTART, FAILED, SYSTEM, CRASH), "-"),
    "stopped": dict.fromkeys((PULL, SERVER, HEALTHY, RESTART, FAILED, SYSTEM, CRASH), "-"),
}

CASES = [(status, callback, outcome) for status, row in EXPECTED.items() for callback, outcome in row.items()]


def outcome_of(outcome: ReplicaTransition | Stay) -> str:
    if isinstance(outcome, ReplicaTransition):
        return f"{outcome.to}{'!' * outcome.fatal} {outcome.fail_reason or ''}".strip()
    return "heartbeat" if outcome is Stay.HEARTBEAT else "-"


@pytest.mark.parametrize(("status", "callback", "outcome"), CASES)
def test_every_status_meets_every_callback(status: str, callback: tuple[str, str], outcome: str) -> None:
    signal = read_signal(*callback)
    assert signal is not None
    assert outcome_of(MACHINE.step(ReplicaStatus(status), signal)) == outcome


def test_the_table_is_complete() -> None:
    assert set(EXPECTED) == set(ReplicaStatus)
    assert {read_signal(*callback) for row in EXPECTED.values() for callback in row} == set(Signal)
    assert all(len(row) == len(Signal) for row in EXPECTED.values())


@pytest.mark.parametrize("status", ["failed", "stopped"])
@pytest.mark.parametrize("signal", list(Signal))
def test_a_callback_in_a_terminal_status_is_ignored_as_terminal(status: str, signal: Signal) -> None:
    assert MACHINE.step(ReplicaStatus(status), signal) is Stay.TERMINAL


def test_only_failures_carry_a_reason_and_only_two_reasons_are_fatal() -> None:
    for status in ReplicaStatus:
        for signal in Signal:
            outcome = MACHINE.step(status, signal)
            if not isinstance(outcome, ReplicaTransition):
                continue
            assert (outcome.fail_reason is not None) == (outcome.to is ReplicaStatus.FAILED)
            fatal = outcome.fail_reason in {FailReason.IMAGE_PULL_FAILED, FailReason.CONTAINER_INIT_FAILED}
            assert outcome.fatal == fatal


WORDS = [
    # STARTING: two steps are known; the later one counts, anywhere in the text; any case.
    ("STARTING", "Pulling image...", Signal.PULLING_IMAGE),
    ("STARTING", "pulling image vllm/vllm-openai:v0.6 (3/12)", Signal.PULLING_IMAGE),
    ("STARTING", "execlet: PULLING IMAGE", Signal.PULLING_IMAGE),
    ("STARTING", "Model server is starting...", Signal.MODEL_SERVER),
    ("STARTING", "starting MODEL SERVER", Signal.MODEL_SERVER),
    ("STARTING", "Pulling image done. Model server is starting...", Signal.MODEL_SERVER),
    ("STARTING", "Model server waits: Pulling image...", Signal.MODEL_SERVER),
    ("STARTING", "", None),
    ("STARTING", "Provisioning", None),
    ("STARTING", "Pulling", None),
    ("STARTING", "the image", None),
    ("STARTING", "Model", None),
    # A word counts with its own status only.
    ("STARTING", "healthy", None),
    ("RUNNING", "Pulling image...", None),
    ("RUNNING", "Model server is starting...", None),
    ("RESTARTING", "healthy", Signal.RESTARTING),
    ("FAILED", "healthy", Signal.FAILED),
    ("SYSTEM_FAILURE", "Pulling image...", Signal.SYSTEM_FAILURE),
    ("VM_CRASH", "Model server", Signal.VM_CRASH),
    # RUNNING: `test_health_words.py` has the words.
    ("RUNNING", "All containers are HEALTHY", Signal.HEALTHY),
    ("RUNNING", "", None),
    ("RUNNING", "up", None),
]


@pytest.mark.parametrize(("status", "message", "signal"), WORDS)
def test_the_signal_of_a_message(status: str, message: str, signal: Signal | None) -> None:
    assert read_signal(status, message) is signal
