"""The instance's table in itself: whole, and of one mind with what hangs on it (I1 to I3, I9, I11)."""

import pytest

from streams.lifecycle.instance import (
    ALLOWED_ACTIONS,
    ENDED_CODES,
    MESSAGES,
    METER,
    STOP_PENDING,
    TRANSITIONAL,
    TRANSITIONS,
    Action,
    InstanceState,
    Move,
    Order,
    Report,
    Timer,
    step,
)

EVERY_MOVE = [(state, trigger, move) for state, row in TRANSITIONS.items() for trigger, move in row.items()]


def test_there_are_eight_states_and_four_are_transitional() -> None:
    assert {state.value for state in TRANSITIONS} == {
        "creating",
        "starting",
        "running",
        "stopping",
        "stopped",
        "error",
        "destroying",
        "destroyed",
    }
    assert {state.value for state in TRANSITIONAL} == {"creating", "starting", "stopping", "destroying"}


def test_the_last_state_has_no_way_out_and_every_other_has() -> None:
    assert [state for state, row in TRANSITIONS.items() if not row] == [InstanceState.DESTROYED]


@pytest.mark.parametrize(
    ("state", "meter", "actions"),
    [
        ("creating", "none", ["destroy"]),
        ("starting", "none", ["destroy"]),
        ("running", "gpu", ["stop", "destroy"]),
        ("stopping", "none", ["destroy"]),
        ("stopped", "disk", ["start", "destroy"]),
        ("error", "none", ["destroy"]),
        ("destroying", "none", ["destroy"]),
        ("destroyed", "none", []),
    ],
)
def test_what_a_state_bills_and_allows(state: str, meter: str, actions: list[str]) -> None:
    assert METER[InstanceState(state)] == meter
    assert list(ALLOWED_ACTIONS[InstanceState(state)]) == actions


@pytest.mark.parametrize("state", InstanceState)
def test_what_is_allowed_is_what_the_table_moves(state: InstanceState) -> None:
    moved = {action for action in Action if step(state, action) is not None}
    # Destroy again while destroying is accepted and changes nothing (I1).
    again = {Action.DESTROY} if state is InstanceState.DESTROYING else set()
    assert set(ALLOWED_ACTIONS[state]) == moved | again


@pytest.mark.parametrize(("state", "trigger", "move"), EVERY_MOVE)
def test_every_code_has_words_and_nothing_else_has_a_code(
    state: InstanceState, trigger: Action | Report | Timer, move: Move
) -> None:
    assert step(state, trigger) is move
    to_error = move.to is InstanceState.ERROR
    back = (state, move.to) in {
        (InstanceState.STARTING, InstanceState.STOPPED),
        (InstanceState.STOPPING, InstanceState.RUNNING),
    }
    assert move.explains == (to_error or back)
    if move.explains:
        assert MESSAGES[trigger].endswith(".")


def test_only_moves_into_a_working_state_give_orders() -> None:
    served = {
        InstanceState.STARTING: Order.START,
        InstanceState.STOPPING: Order.STOP,
        InstanceState.DESTROYING: Order.DESTROY,
    }
    for _, _, move in EVERY_MOVE:
        assert move.order == served.get(move.to)


def test_each_report_has_a_row_somewhere_or_serves_none() -> None:
    used = {trigger for _, trigger, _ in EVERY_MOVE if isinstance(trigger, Report)}
    assert used == set(Report)
    assert {trigger for _, trigger, _ in EVERY_MOVE if isinstance(trigger, Timer)} == set(Timer)


def test_a_pending_stop_counts_only_in_running() -> None:
    assert set(STOP_PENDING) == {"stop_confirmed", "workload_failed", "workload_completed", "balance_empty"}
    assert step(InstanceState.RUNNING, Report.STOP_CONFIRMED) is None
    assert step(InstanceState.RUNNING, Report.STOP_CONFIRMED, stop_pending=True) is not None
    assert step(InstanceState.RUNNING, Timer.BALANCE_EMPTY, stop_pending=True) is None
    for state in set(InstanceState) - {InstanceState.RUNNING}:
        for trigger in STOP_PENDING:
            assert step(state, trigger, stop_pending=True) is step(state, trigger)


def test_a_workload_that_failed_finished_or_vanished_has_ended_and_a_lost_one_may_have_not() -> None:
    assert {code.value for code in ENDED_CODES} == {"workload_failed", "workload_completed", "workload_gone"}
