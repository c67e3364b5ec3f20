"""The types of rows: orgs, deployments, replicas, instances, windows, and the command and event memory.

Each is one record of its table's changelog, under the key `<org_id>/<row_id>`. Rows are frozen: only the `RowStore`
changes them. Times are UTC milliseconds.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, NamedTuple

from streams.billing.windows import DERIVED, Window
from streams.lifecycle.deployment import DeploymentStatus
from streams.lifecycle.instance import STAGES, InstanceStage, InstanceState, Order
from streams.lifecycle.replica import FailReason, ReplicaStatus
from streams.meters import OwnerKind


class WindowCount(NamedTuple):
    """An owner's windows of one meter: how many were opened, and the earliest time at which the next may open (B1)."""

    meter: str
    opened: int
    free_at: int


NO_WINDOWS: Final[tuple[Window, ...]] = ()


class SentNotice(NamedTuple):
    """A notice that was sent (N1)."""

    kind: str
    threshold_s: int | None
    at: int


class LateSigns(NamedTuple):
    """Signs of life of an ended entity: the first, the last, and when R6 last sent an order (None: never)."""

    first_at: int
    last_at: int
    ordered_at: int | None


def _open_windows() -> Any:
    return field(default=NO_WINDOWS, init=False, repr=False, metadata={DERIVED: True})


@dataclass(frozen=True, slots=True, eq=False)
class Org:
    """An org, as Croesus reports it. `balance` None: none received yet, which counts as 0 (I6).

    `sequence`: of the last balance applied; `greatest_sequence`: of its epoch (C3). `empty_since`: since when the
    balance has been at or below zero without a break (I8). `was_empty` and `was_below_s`: at the last tick,
    whether the balance was, and which thresholds the runway was below (N1). `runway_notices`: (threshold, time) of
    those sent since the balance was last raised. `destroy_notice_at`: sent since the balance became empty.
    `notices`: the last ones, for the org's page.
    """

    TABLE: ClassVar[str] = "orgs"

    org_id: str
    balance: str | None = None
    sequence: int | None = None
    empty_since: int | None = None
    suspended: bool = False
    epoch: int = 0
    greatest_sequence: int | None = None
    was_empty: bool = False
    was_below_s: tuple[int, ...] = ()
    runway_notices: tuple[tuple[int, int], ...] = ()
    destroy_notice_at: int | None = None
    notices_made: int = 0
    notices: tuple[SentNotice, ...] = ()

    @property
    def row_id(self) -> str:
        """The row's id within its org and table."""
        return self.org_id


@dataclass(frozen=True, slots=True, eq=False)
class Deployment:
    """A deployment (P1). `active_at`: the latest of a request, becoming created, a replica entering running (P6)."""

    TABLE: ClassVar[str] = "deployments"

    org_id: str
    deployment_id: str
    status: DeploymentStatus
    model: str
    gpu_type: str
    gpu_count: int
    serving: str
    min_replicas: int
    idle_timeout_s: int | None
    active_at: int
    created_at: int
    current_replicas: int = 0
    replicas_made: int = 0
    changes_made: int = 0
    ended_at: int | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    labels_json: str = field(default="", init=False, repr=False, metadata={DERIVED: True})

    @property
    def row_id(self) -> str:
        """The row's id within its org and table."""
        return self.deployment_id


@dataclass(frozen=True, slots=True, eq=False)
class Replica:
    """A replica (R1).

    `last_health_check` is current only while no window is open: an open window has its own (B2).
    """

    TABLE: ClassVar[str] = "replicas"
    OWNER: ClassVar[OwnerKind] = "replica"

    org_id: str
    replica_id: str
    deployment_id: str
    status: ReplicaStatus
    created_at: int
    fail_reason: FailReason | None = None
    last_health_check: int | None = None
    window_counts: tuple[WindowCount, ...] = ()
    changes_made: int = 0
    ended_at: int | None = None
    aborts_sent: int = 0
    late_signs: LateSigns | None = None
    open_windows: tuple[Window, ...] = _open_windows()

    @property
    def row_id(self) -> str:
        """The row's id within its org and table."""
        return self.replica_id

    @property
    def health_checked_at(self) -> int | None:
        """Its last heartbeat, from its open window where it has one."""
        for window in self.open_windows:
            if window.last_health_check is not None:
                return window.last_health_check
        return self.last_health_check


class OrderCount(NamedTuple):
    """How often an order was sent: `sent` in all (its id's n), `attempt` since its state was entered, and when last."""

    sent: int
    attempt: int
    last_minute: int


NEVER_SENT: Final = OrderCount(0, 0, -1)


@dataclass(frozen=True, slots=True, eq=False)
class Instance:
    """An instance (I1).

    `entered_at`: when it entered its stage. `timer_from`: when that stage's timer started, at a tick (I12). `ran`: it
    has been running before (I9). `orders`: by order.
    """

    TABLE: ClassVar[str] = "instances"
    OWNER: ClassVar[OwnerKind] = "instance"

    org_id: str
    instance_id: str
    stage: InstanceStage
    offer_id: str
    gpu_type: str
    gpu_count: int
    disk_gb: int
    mode: str
    image: str
    gpus_releasable: bool
    created_at: int
    entered_at: int
    gpus_held: bool = True
    error_code: str | None = None
    error_message: str | None = None
    ran: bool = False
    window_counts: tuple[WindowCount, ...] = ()
    changes_made: int = 0
    ended_at: int | None = None
    orders: Mapping[Order, OrderCount] = field(default_factory=dict)
    timer_from: int | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    late_signs: LateSigns | None = None
    labels_json: str = field(default="", init=False, repr=False, metadata={DERIVED: True})
    open_windows: tuple[Window, ...] = _open_windows()

    @property
    def row_id(self) -> str:
        """The row's id within its org and table."""
        return self.instance_id

    @property
    def state(self) -> InstanceState:
        """Its state as consumers see it."""
        return STAGES[self.stage].state


@dataclass(frozen=True, slots=True, eq=False)
class CommandMemory:
    """A command's result, byte for byte, to be sent again for 24 h (C1).

    `value`: its JSON; empty for an `INVALID` one without a reason, which is built from the other fields.
    """

    TABLE: ClassVar[str] = "answers"

    org_id: str
    command_id: str
    at: int
    value: str

    @property
    def row_id(self) -> str:
        """The row's id within its org and table."""
        return self.command_id


@dataclass(frozen=True, slots=True)
class EventMemory:
    """The id of an applied event, so that it is not applied again within 24 h (C4)."""

    TABLE: ClassVar[str] = "events"

    org_id: str
    topic: str
    event_id: str
    at: int

    @property
    def row_id(self) -> str:
        """The row's id within its org and table."""
        return f"{self.topic}/{self.event_id}"


@dataclass(frozen=True, slots=True, eq=False)
class OperatorCommandMemory:
    """The result of an operator's command, to be sent again for 24 h and as long as its window has a row (C1)."""

    TABLE: ClassVar[str] = "operator_answers"

    org_id: str
    command_id: str
    at: int
    value: str
    window_id: str | None = None

    @property
    def row_id(self) -> str:
        """The row's id within its org and table."""
        return self.command_id


@dataclass(frozen=True, slots=True, eq=False)
class UsedId:
    """The id of a deployment or an instance whose row has expired: not to be used again for a time (contract)."""

    TABLE: ClassVar[str] = "used_ids"

    org_id: str
    kind: str
    entity_id: str
    left_at: int

    @property
    def row_id(self) -> str:
        """The row's id within its org and table."""
        return f"{self.kind}/{self.entity_id}"


@dataclass(frozen=True, slots=True, eq=False)
class DayUsage:
    """An org's usage and credits of a UTC day, by usage type and profile (U1).

    `billed` and `credited`: unit-ms, duration times quantity. `cost` and `credited_cost`: sums of unit-ms times the
    price per hour in atto, exact, as decimal integers; divided by an hour's ms only where they are shown.
    """

    TABLE: ClassVar[str] = "day_usage"

    org_id: str
    day: str
    type: str
    profile: str
    billed: int = 0
    credited: int = 0
    cost: str = "0"
    credited_cost: str = "0"

    @property
    def row_id(self) -> str:
        """The row's id within its org and table."""
        return f"{self.day}/{self.type}/{self.profile}"


Owner = Replica | Instance
Row = (
    Org
    | Deployment
    | Replica
    | Instance
    | Window
    | CommandMemory
    | OperatorCommandMemory
    | EventMemory
    | UsedId
    | DayUsage
)

ROW_TYPES: Final[tuple[Any, ...]] = (
    Org,
    Deployment,
    Replica,
    Instance,
    Window,
    CommandMemory,
    OperatorCommandMemory,
    EventMemory,
    UsedId,
    DayUsage,
)
"""Every type of row, in the order in which a restore reads them: owners before their windows."""


def row_key(row: Row) -> bytes:
    """Return the row's changelog key: `<org_id>/<row_id>`; no id has a slash."""
    return f"{row.org_id}/{row.row_id}".encode()
