"""The instance's machine, compared with a table written by hand from I1 to I4, I7, I10 and I11."""

import pytest

from streams.lifecycle.instance import (
    ENDED_CODES,
    MACHINE,
    MESSAGES,
    STAGES,
    Action,
    InstanceStage,
    InstanceTransition,
    Report,
    Timer,
)
from streams.lifecycle.machine import Stay

STAGE_FACTS = [
    # stage, state shown, transitional, running meters, burning meters, allowed actions, times out, order, sent again
    ("creating", "creating", True, "", "gpu disk", "destroy", "360 create_timed_out", "create", ""),
    ("starting", "starting", True, "", "gpu disk", "destroy", "30 start_timed_out", "start", ""),
    ("running", "running", False, "gpu", "gpu disk", "stop destroy", "", "", ""),
    ("stop_pending", "running", False, "gpu", "gpu disk", "stop destroy", "", "", "stop"),
    ("stopping", "stopping", True, "", "", "destroy", "30 stop_timed_out", "stop", ""),
    ("stopped", "stopped", False, "disk", "disk", "start destroy", "", "", ""),
    ("error", "error", False, "", "", "destroy", "", "", ""),
    ("destroying", "destroying", True, "", "", "destroy", "", "destroy", "destroy"),
    ("destroyed", "destroyed", False, "", "", "", "", "", ""),
]

UP, STOPPED, STOP = "running", "stopped", "stopping +stop"
FAILED, GONE, NOT_STARTED = "error ! releases", "error !", "stopped !"
DESTROY, AT_ONCE = "destroying +destroy", "stopped through stopping"

# The transition on a trigger: the stage, the order that is sent, "!" if its name becomes the error code.
MOVES = {
    "creating": {
        "destroy": DESTROY,
        "workload_up": UP,
        "found_running": UP,
        "create_timed_out": FAILED,
        "launch_failed": FAILED,
        "workload_lost": FAILED,
        "workload_failed": FAILED,
        "workload_completed": FAILED,
        "workload_gone": FAILED,
    },
    "starting": {
        "destroy": DESTROY,
        "workload_up": UP,
        "found_running": UP,
        "workload_failed": FAILED,
        "workload_completed": FAILED,
        "workload_gone": GONE,
        "start_refused": NOT_STARTED,
        "start_unreachable": NOT_STARTED,
        "gpus_unavailable": NOT_STARTED,
        "workload_lost": NOT_STARTED,
        "start_timed_out": NOT_STARTED,
    },
    "running": {
        "stop": STOP,
        "destroy": DESTROY,
        "balance_empty": STOP,
        "found_held": STOPPED,
        "workload_failed": FAILED,
        "workload_lost": FAILED,
        "workload_completed": FAILED,
        "workload_gone": FAILED,
    },
    "stop_pending": {
        "stop": STOP,
        "destroy": DESTROY,
        "stop_confirmed": AT_ONCE,
        "found_held": AT_ONCE,
        "workload_failed": AT_ONCE,
        "workload_completed": AT_ONCE,
        "workload_lost": FAILED,
        "workload_gone": FAILED,
    },
    "stopping": {
        "destroy": DESTROY,
        "stop_confirmed": STOPPED,
        "found_held": STOPPED,
        "workload_failed": STOPPED,
        "workload_completed": STOPPED,
        "workload_lost": FAILED,
        "workload_gone": GONE,
        "stop_timed_out": "stop_pending !",
    },
    "stopped": {
        "start": "starting +start",
        "destroy": DESTROY,
        "workload_gone": GONE,
        "balance_debt": DESTROY,
    },
    "error": {
        "destroy": DESTROY,
        "workload_up": UP,
        "found_running": UP,
        "found_held": STOPPED,
        "workload_gone": GONE,
        "workload_failed": GONE,
        "workload_completed": GONE,
        "balance_debt": DESTROY,
        "error_expired": DESTROY,
    },
    "destroying": {"teardown_finished": "destroyed", "workload_gone": "destroyed"},
    "destroyed": {},
}

TRIGGERS = [*Action, *Report, *Timer]


def written(stage: str, move: InstanceTransition | Stay) -> str:
    if isinstance(move, Stay):
        return "terminal" if stage == "destroyed" else "out_of_place"
    parts = [move.to.value, f"+{move.order}" if move.order else "", "!" if move.sets_error_code else ""]
    parts += ["releases" if move.releases_gpus else "", f"through {move.through}" if move.through else ""]
    return " ".join(part for part in parts if part)


def test_the_tables_are_whole() -> None:
    assert [facts[0] for facts in STAGE_FACTS] == list(InstanceStage) == list(STAGES)
    assert list(MOVES) == list(InstanceStage)


@pytest.mark.parametrize("stage", InstanceStage)
@pytest.mark.parametrize("trigger", TRIGGERS)
def test_every_stage_meets_every_trigger(stage: InstanceStage, trigger: Action | Report | Timer) -> None:
    expected = MOVES[stage].get(trigger, "terminal" if stage == "destroyed" else "out_of_place")
    assert written(stage, MACHINE.step(stage, trigger)) == expected


@pytest.mark.parametrize("facts", STAGE_FACTS, ids=lambda facts: facts[0])
def test_the_properties_of_a_stage(facts: tuple[str, str, bool, str, str, str, str, str, str]) -> None:
    stage, state, transitional, runs, burns, allowed, times_out, serves, resends = facts
    row = STAGES[InstanceStage(stage)]
    assert (row.state, row.transitional) == (state, transitional)
    assert (" ".join(row.runs), " ".join(row.burns), " ".join(row.allowed)) == (runs, burns, allowed)
    limit = "" if row.times_out is None else f"{row.times_out[0] // 60_000} {row.times_out[1]}"
    assert (limit, row.serves or "", row.resends or "") == (times_out, serves, resends)


def test_an_empty_balance_stops_running_instances_and_releases_stopped_ones() -> None:
    assert {stage: row.on_empty_balance for stage, row in STAGES.items() if row.on_empty_balance} == {
        "running": "stop",
        "stopped": "release_gpus",
    }


def test_an_order_is_sent_again_for_anything_that_runs_unbilled() -> None:
    """I4."""
    assert {
        (stage.value, report.value): order for stage, row in STAGES.items() for report, order in row.unbilled.items()
    } == {
        ("stopped", "workload_up"): "stop",
        ("stopped", "found_running"): "stop",
        ("destroyed", "workload_up"): "destroy",
        ("destroyed", "found_running"): "destroy",
        ("destroyed", "found_held"): "destroy",
    }


def test_every_error_code_has_a_message() -> None:
    codes = {trigger for moves in MOVES.values() for trigger, to in moves.items() if "!" in to}
    assert codes == set(MESSAGES)
    assert all(message.endswith(".") for message in MESSAGES.values())


def test_the_codes_of_workloads_that_have_ended() -> None:
    assert {code.value for code in ENDED_CODES} == {"workload_failed", "workload_completed", "workload_gone"}
