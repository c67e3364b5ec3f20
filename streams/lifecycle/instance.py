"""The instance's state machine (rules I1 to I4, I7, I9 to I11): one row for each stage, with all of its properties.

A trigger without an entry in a stage's row is refused (a command) or ignored (a report); the instance stays.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from streams.lifecycle.machine import Machine
from streams.limits import CREATE_TIMEOUT_MS, START_TIMEOUT_MS, STOP_TIMEOUT_MS


class InstanceState(StrEnum):
    """The state that consumers see (I1). Exactly one of eight."""

    CREATING = "creating"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "stopped"
    ERROR = "error"
    DESTROYING = "destroying"
    DESTROYED = "destroyed"


class InstanceStage(StrEnum):
    """The stage of an instance: its state, with `running` split in two.

    `STOP_PENDING`: running, after a stop that was not confirmed in time; the stop is sent again at each tick (I1).
    """

    CREATING = "creating"
    STARTING = "starting"
    RUNNING = "running"
    STOP_PENDING = "stop_pending"
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
    """What a host reports about an instance."""

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
    """What time or the balance triggers, at a tick or at a balance update (I1, I7 to I9)."""

    STOP_TIMED_OUT = "stop_timed_out"
    START_TIMED_OUT = "start_timed_out"
    CREATE_TIMED_OUT = "create_timed_out"
    BALANCE_EMPTY = "balance_empty"
    BALANCE_DEBT = "balance_debt"
    ERROR_EXPIRED = "error_expired"


class Order(StrEnum):
    """What a host is ordered to do."""

    CREATE = "create"
    START = "start"
    STOP = "stop"
    DESTROY = "destroy"
    RELEASE_GPUS = "release_gpus"


class OnEmptyBalance(StrEnum):
    """What a balance at or below zero does to an instance (I7)."""

    STOP = "stop"
    RELEASE_GPUS = "release_gpus"


Trigger = Action | Report | Timer


@dataclass(frozen=True, slots=True)
class InstanceTransition:
    """A change of an instance's stage.

    `order` is sent to the host on entry. `sets_error_code`: the trigger's name becomes the `error_code` (I3).
    `releases_gpus`: at once (I10). `through`: a stage that is entered and left at the same time.
    """

    to: InstanceStage
    order: Order | None = None
    sets_error_code: bool = False
    releases_gpus: bool = False
    through: InstanceStage | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StageRow:
    """All properties of a stage.

    `state`: what consumers see. `runs` and `burns`: the names of the meters that run (I2), and of those that
    count for the burn (I6). `serves`: the order whose attempts are counted from 1 again on entry. `resends`: the order
    that is sent again at each tick. `times_out`: the timer, and after how many ms it fires. `on_empty_balance`: I7.
    `unbilled`: reports that something exists or runs unbilled, and the order that is sent again for each (I4).
    """

    state: InstanceState
    moves: Mapping[Trigger, InstanceTransition]
    allowed: tuple[Action, ...]
    transitional: bool
    runs: tuple[str, ...]
    burns: tuple[str, ...]
    serves: Order | None = None
    resends: Order | None = None
    times_out: tuple[int, Timer] | None = None
    on_empty_balance: OnEmptyBalance | None = None
    unbilled: Mapping[Report, Order] = field(default_factory=dict)


_UP = InstanceTransition(InstanceStage.RUNNING)
_STOPPED = InstanceTransition(InstanceStage.STOPPED)
_STOPPED_AT_ONCE = InstanceTransition(InstanceStage.STOPPED, through=InstanceStage.STOPPING)
_STOP = InstanceTransition(InstanceStage.STOPPING, order=Order.STOP)
_DESTROYED = InstanceTransition(InstanceStage.DESTROYED)
_DESTROY = InstanceTransition(InstanceStage.DESTROYING, order=Order.DESTROY)
_NOT_STARTED = InstanceTransition(InstanceStage.STOPPED, sets_error_code=True)
_FAILED = InstanceTransition(InstanceStage.ERROR, sets_error_code=True, releases_gpus=True)
_GONE = InstanceTransition(InstanceStage.ERROR, sets_error_code=True)

STAGES: Final[Mapping[InstanceStage, StageRow]] = {
    InstanceStage.CREATING: StageRow(
        state=InstanceState.CREATING,
        moves={
            Report.WORKLOAD_UP: _UP,
            Report.FOUND_RUNNING: _UP,
            Report.LAUNCH_FAILED: _FAILED,
            Report.WORKLOAD_LOST: _FAILED,
            Report.WORKLOAD_FAILED: _FAILED,
            Report.WORKLOAD_COMPLETED: _FAILED,
            Report.WORKLOAD_GONE: _FAILED,
            Timer.CREATE_TIMED_OUT: _FAILED,
            Action.DESTROY: _DESTROY,
        },
        allowed=(Action.DESTROY,),
        transitional=True,
        runs=(),
        burns=("gpu", "disk"),
        serves=Order.CREATE,
        times_out=(CREATE_TIMEOUT_MS, Timer.CREATE_TIMED_OUT),
    ),
    InstanceStage.STARTING: StageRow(
        state=InstanceState.STARTING,
        moves={
            Report.WORKLOAD_UP: _UP,
            Report.FOUND_RUNNING: _UP,
            Report.WORKLOAD_FAILED: _FAILED,
            Report.WORKLOAD_COMPLETED: _FAILED,
            Report.START_REFUSED: _NOT_STARTED,
            Report.START_UNREACHABLE: _NOT_STARTED,
            Report.GPUS_UNAVAILABLE: _NOT_STARTED,
            Report.WORKLOAD_LOST: _NOT_STARTED,
            Timer.START_TIMED_OUT: _NOT_STARTED,
            Report.WORKLOAD_GONE: _GONE,
            Action.DESTROY: _DESTROY,
        },
        allowed=(Action.DESTROY,),
        transitional=True,
        runs=(),
        burns=("gpu", "disk"),
        serves=Order.START,
        times_out=(START_TIMEOUT_MS, Timer.START_TIMED_OUT),
    ),
    InstanceStage.RUNNING: StageRow(
        state=InstanceState.RUNNING,
        moves={
            Action.STOP: _STOP,
            Timer.BALANCE_EMPTY: _STOP,
            Report.FOUND_HELD: _STOPPED,
            Report.WORKLOAD_FAILED: _FAILED,
            Report.WORKLOAD_LOST: _FAILED,
            Report.WORKLOAD_COMPLETED: _FAILED,
            Report.WORKLOAD_GONE: _FAILED,
            Action.DESTROY: _DESTROY,
        },
        allowed=(Action.STOP, Action.DESTROY),
        transitional=False,
        runs=("gpu",),
        burns=("gpu", "disk"),
        on_empty_balance=OnEmptyBalance.STOP,
    ),
    InstanceStage.STOP_PENDING: StageRow(
        state=InstanceState.RUNNING,
        moves={
            Action.STOP: _STOP,
            Report.STOP_CONFIRMED: _STOPPED_AT_ONCE,
            Report.FOUND_HELD: _STOPPED_AT_ONCE,
            Report.WORKLOAD_FAILED: _STOPPED_AT_ONCE,
            Report.WORKLOAD_COMPLETED: _STOPPED_AT_ONCE,
            Report.WORKLOAD_LOST: _FAILED,
            Report.WORKLOAD_GONE: _FAILED,
            Action.DESTROY: _DESTROY,
        },
        allowed=(Action.STOP, Action.DESTROY),
        transitional=False,
        runs=("gpu",),
        burns=("gpu", "disk"),
        resends=Order.STOP,
    ),
    InstanceStage.STOPPING: StageRow(
        state=InstanceState.STOPPING,
        moves={
            Report.STOP_CONFIRMED: _STOPPED,
            Report.FOUND_HELD: _STOPPED,
            Report.WORKLOAD_FAILED: _STOPPED,
            Report.WORKLOAD_COMPLETED: _STOPPED,
            Report.WORKLOAD_LOST: _FAILED,
            Report.WORKLOAD_GONE: _GONE,
            Timer.STOP_TIMED_OUT: InstanceTransition(InstanceStage.STOP_PENDING, sets_error_code=True),
            Action.DESTROY: _DESTROY,
        },
        allowed=(Action.DESTROY,),
        transitional=True,
        runs=(),
        burns=(),
        serves=Order.STOP,
        times_out=(STOP_TIMEOUT_MS, Timer.STOP_TIMED_OUT),
    ),
    InstanceStage.STOPPED: StageRow(
        state=InstanceState.STOPPED,
        moves={
            Action.START: InstanceTransition(InstanceStage.STARTING, order=Order.START),
            Report.WORKLOAD_GONE: _GONE,
            Timer.BALANCE_DEBT: _DESTROY,
            Action.DESTROY: _DESTROY,
        },
        allowed=(Action.START, Action.DESTROY),
        transitional=False,
        runs=("disk",),
        burns=("disk",),
        on_empty_balance=OnEmptyBalance.RELEASE_GPUS,
        unbilled={Report.WORKLOAD_UP: Order.STOP, Report.FOUND_RUNNING: Order.STOP},
    ),
    InstanceStage.ERROR: StageRow(
        state=InstanceState.ERROR,
        moves={
            Report.FOUND_RUNNING: _UP,
            Report.WORKLOAD_UP: _UP,
            Report.FOUND_HELD: _STOPPED,
            Report.WORKLOAD_GONE: _GONE,
            Report.WORKLOAD_FAILED: _GONE,
            Report.WORKLOAD_COMPLETED: _GONE,
            Timer.BALANCE_DEBT: _DESTROY,
            Timer.ERROR_EXPIRED: _DESTROY,
            Action.DESTROY: _DESTROY,
        },
        allowed=(Action.DESTROY,),
        transitional=False,
        runs=(),
        burns=(),
    ),
    InstanceStage.DESTROYING: StageRow(
        state=InstanceState.DESTROYING,
        moves={Report.TEARDOWN_FINISHED: _DESTROYED, Report.WORKLOAD_GONE: _DESTROYED},
        allowed=(Action.DESTROY,),
        transitional=True,
        runs=(),
        burns=(),
        serves=Order.DESTROY,
        resends=Order.DESTROY,
    ),
    InstanceStage.DESTROYED: StageRow(
        state=InstanceState.DESTROYED,
        moves={},
        allowed=(),
        transitional=False,
        runs=(),
        burns=(),
        unbilled=dict.fromkeys((Report.WORKLOAD_UP, Report.FOUND_RUNNING, Report.FOUND_HELD), Order.DESTROY),
    ),
}

MACHINE: Final[Machine[InstanceStage, Trigger, InstanceTransition]] = Machine(
    {stage: row.moves for stage, row in STAGES.items()}, frozenset({InstanceStage.DESTROYED})
)

ENDED_CODES: Final = frozenset({Report.WORKLOAD_FAILED, Report.WORKLOAD_COMPLETED, Report.WORKLOAD_GONE})
"""The workload is known to have ended: in error, such an instance is destroyed after an hour (I9)."""

MESSAGES: Final[Mapping[Trigger, str]] = {
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
    Timer.CREATE_TIMED_OUT: (
        "The host did not report the instance within 6 hours. Its GPUs are released; destroy it and deploy another."
    ),
    Timer.START_TIMED_OUT: "The host did not confirm the start within 30 minutes. Its disk is kept; start it again.",
}
"""The `error_message` of a code where the host sends none (I3)."""
