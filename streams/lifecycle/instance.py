"""The instance's state machine (rules I1, I3, I4, I9 to I11): every state, and what each trigger does there.

A trigger without an entry in a state's row is refused (a command) or ignored (a report); the state stays.
"""

from dataclasses import dataclass
from enum import StrEnum


class InstanceState(StrEnum):
    """Where an instance stands (I1). Exactly one of eight."""

    CREATING = "creating"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "stopped"
    ERROR = "error"
    DESTROYING = "destroying"
    DESTROYED = "destroyed"


class Action(StrEnum):
    """What a user may ask of an instance (I11)."""

    START = "start"
    STOP = "stop"
    DESTROY = "destroy"


class Report(StrEnum):
    """What a host says of an instance."""

    WORKLOAD_UP = "workload_up"
    LAUNCH_FAILED = "launch_failed"
    STOP_CONFIRMED = "stop_confirmed"
    START_REFUSED = "start_refused"
    START_UNREACHABLE = "start_unreachable"
    GPUS_UNAVAILABLE = "gpus_unavailable"
    WORKLOAD_FAILED = "workload_failed"
    WORKLOAD_LOST = "workload_lost"
    WORKLOAD_COMPLETED = "workload_completed"
    WORKLOAD_GONE = "workload_gone"
    FOUND_RUNNING = "found_running"
    FOUND_HELD = "found_held"
    TEARDOWN_FINISHED = "teardown_finished"


class Timer(StrEnum):
    """What the clock or the balance does to an instance, judged at a tick or at a balance update (I1, I7 to I9)."""

    STOP_TIMED_OUT = "stop_timed_out"
    START_TIMED_OUT = "start_timed_out"
    BALANCE_EMPTY = "balance_empty"
    BALANCE_DEBT = "balance_debt"
    ERROR_EXPIRED = "error_expired"


class Order(StrEnum):
    """What a host is told to do."""

    CREATE = "create"
    START = "start"
    STOP = "stop"
    DESTROY = "destroy"
    RELEASE_GPUS = "release_gpus"


class Meter(StrEnum):
    """What an instance is billed for in a state (I2)."""

    GPU = "gpu"
    DISK = "disk"
    NONE = "none"


Trigger = Action | Report | Timer


@dataclass(frozen=True, slots=True)
class Move:
    """A step of an instance.

    `order` goes to the host on arrival. `explains`: the trigger's name becomes the `error_code` (I3).
    `releases`: the GPUs go back at once (I10). `passing`: a state entered and left in the same instant.
    `stays_pending`: the stop that was not confirmed is asked for again at each tick (I1).
    """

    to: InstanceState
    order: Order | None = None
    explains: bool = False
    releases: bool = False
    passing: InstanceState | None = None
    stays_pending: bool = False


TRANSITIONAL = frozenset(
    {InstanceState.CREATING, InstanceState.STARTING, InstanceState.STOPPING, InstanceState.DESTROYING}
)

METER: dict[InstanceState, Meter] = dict.fromkeys(InstanceState, Meter.NONE) | {
    InstanceState.RUNNING: Meter.GPU,
    InstanceState.STOPPED: Meter.DISK,
}

_UP = Move(InstanceState.RUNNING)
_STOPPED = Move(InstanceState.STOPPED)
_STOP = Move(InstanceState.STOPPING, order=Order.STOP)
_DESTROY = Move(InstanceState.DESTROYING, order=Order.DESTROY)
_NOT_STARTED = Move(InstanceState.STOPPED, explains=True)
_BROKEN = Move(InstanceState.ERROR, explains=True, releases=True)
_VANISHED = Move(InstanceState.ERROR, explains=True)
_STILL_BROKEN = Move(InstanceState.ERROR, explains=True)

TRANSITIONS: dict[InstanceState, dict[Trigger, Move]] = {
    InstanceState.CREATING: {
        Report.WORKLOAD_UP: _UP,
        Report.LAUNCH_FAILED: _BROKEN,
        Report.WORKLOAD_LOST: _BROKEN,
        Report.WORKLOAD_FAILED: _BROKEN,
        Report.WORKLOAD_COMPLETED: _BROKEN,
        Report.WORKLOAD_GONE: _BROKEN,
        Action.DESTROY: _DESTROY,
    },
    InstanceState.STARTING: {
        Report.WORKLOAD_UP: _UP,
        Report.WORKLOAD_FAILED: _BROKEN,
        Report.WORKLOAD_COMPLETED: _BROKEN,
        Report.START_REFUSED: _NOT_STARTED,
        Report.START_UNREACHABLE: _NOT_STARTED,
        Report.GPUS_UNAVAILABLE: _NOT_STARTED,
        Report.WORKLOAD_LOST: _NOT_STARTED,
        Timer.START_TIMED_OUT: _NOT_STARTED,
        Report.WORKLOAD_GONE: _VANISHED,
        Action.DESTROY: _DESTROY,
    },
    InstanceState.RUNNING: {
        Action.STOP: _STOP,
        Timer.BALANCE_EMPTY: _STOP,
        Report.WORKLOAD_FAILED: _BROKEN,
        Report.WORKLOAD_LOST: _BROKEN,
        Report.WORKLOAD_COMPLETED: _BROKEN,
        Report.WORKLOAD_GONE: _BROKEN,
        Action.DESTROY: _DESTROY,
    },
    InstanceState.STOPPING: {
        Report.STOP_CONFIRMED: _STOPPED,
        Report.WORKLOAD_FAILED: _STOPPED,
        Report.WORKLOAD_COMPLETED: _STOPPED,
        Report.WORKLOAD_LOST: _BROKEN,
        Report.WORKLOAD_GONE: _VANISHED,
        Timer.STOP_TIMED_OUT: Move(InstanceState.RUNNING, explains=True, stays_pending=True),
        Action.DESTROY: _DESTROY,
    },
    InstanceState.STOPPED: {
        Action.START: Move(InstanceState.STARTING, order=Order.START),
        Report.WORKLOAD_GONE: _VANISHED,
        Timer.BALANCE_DEBT: _DESTROY,
        Action.DESTROY: _DESTROY,
    },
    InstanceState.ERROR: {
        Report.FOUND_RUNNING: _UP,
        Report.WORKLOAD_UP: _UP,
        Report.FOUND_HELD: _STOPPED,
        Report.WORKLOAD_GONE: _STILL_BROKEN,
        Report.WORKLOAD_FAILED: _STILL_BROKEN,
        Report.WORKLOAD_COMPLETED: _STILL_BROKEN,
        Timer.BALANCE_DEBT: _DESTROY,
        Timer.ERROR_EXPIRED: _DESTROY,
        Action.DESTROY: _DESTROY,
    },
    InstanceState.DESTROYING: {Report.TEARDOWN_FINISHED: Move(InstanceState.DESTROYED)},
    InstanceState.DESTROYED: {},
}

# What differs in running's row while a stop that timed out is still wanted (I1). An empty balance adds nothing (I7).
_STOPPED_AT_ONCE = Move(InstanceState.STOPPED, passing=InstanceState.STOPPING)
STOP_PENDING: dict[Trigger, Move | None] = {
    Report.STOP_CONFIRMED: _STOPPED_AT_ONCE,
    Report.WORKLOAD_FAILED: _STOPPED_AT_ONCE,
    Report.WORKLOAD_COMPLETED: _STOPPED_AT_ONCE,
    Timer.BALANCE_EMPTY: None,
}

# The workload is known to have ended: in error, such an instance is destroyed after an hour (I9).
ENDED_CODES = frozenset({Report.WORKLOAD_FAILED, Report.WORKLOAD_COMPLETED, Report.WORKLOAD_GONE})

ALLOWED_ACTIONS: dict[InstanceState, tuple[Action, ...]] = dict.fromkeys(InstanceState, (Action.DESTROY,)) | {
    InstanceState.RUNNING: (Action.STOP, Action.DESTROY),
    InstanceState.STOPPED: (Action.START, Action.DESTROY),
    InstanceState.DESTROYED: (),
}

# Our words where the host sends none (I3).
MESSAGES: dict[str, str] = {
    Report.LAUNCH_FAILED: "The workload could not be brought up. Check the template's image and its credentials.",
    Report.START_REFUSED: "The host refused to resume the instance. Its disk is kept; start it again.",
    Report.START_UNREACHABLE: "The host could not be reached to resume the instance. Its disk is kept; start it again.",
    Report.GPUS_UNAVAILABLE: "Its GPUs are taken or out of order on that machine. Its disk is kept; try again later.",
    Report.WORKLOAD_FAILED: "The workload failed.",
    Report.WORKLOAD_LOST: "The host lost track of the workload.",
    Report.WORKLOAD_COMPLETED: "The job ran to completion. Destroy the instance once its results are taken.",
    Report.WORKLOAD_GONE: "The container disappeared from the machine.",
    Timer.STOP_TIMED_OUT: (
        "The host did not confirm the stop within 30 minutes. It is still up and billed; the stop is being retried."
    ),
    Timer.START_TIMED_OUT: "The host did not confirm the start within 30 minutes. Its disk is kept; start it again.",
}


def step(state: InstanceState, trigger: Trigger, *, stop_pending: bool = False) -> Move | None:
    """What `trigger` does to an instance in `state`; None where that is no move (I1)."""
    if stop_pending and state is InstanceState.RUNNING and trigger in STOP_PENDING:
        return STOP_PENDING[trigger]
    return TRANSITIONS[state].get(trigger)
