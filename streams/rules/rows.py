"""The rows: what is remembered of every org, deployment, replica, instance, command and event.

Each is one record of its table's changelog, under the key `<org_id>/<row_id>`. Times are UTC milliseconds.
"""

from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

from streams.billing.windows import Window
from streams.lifecycle.deployment import DeploymentStatus
from streams.lifecycle.instance import InstanceState, Order
from streams.lifecycle.replica import FailReason, ReplicaStatus


@dataclass(slots=True, eq=False)
class Org:
    """An org's standing with Croesus. `balance` None: none heard yet, which counts as 0 (I6)."""

    TABLE: ClassVar[str] = "orgs"

    org_id: str
    balance: str | None = None
    balance_sequence: int | None = None
    empty_since: int | None = None  # since when the balance has been at or below zero without a break (I8)
    suspended: bool = False

    @property
    def row_id(self) -> str:
        """Its id within its org and table."""
        return self.org_id


@dataclass(slots=True, eq=False)
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

    @property
    def row_id(self) -> str:
        """Its id within its org and table."""
        return self.deployment_id


@dataclass(slots=True, eq=False)
class Replica:
    """A replica (R1), with its open window where it has one.

    `last_health_check` is kept here only while no window is open: an open window has the current one (B2).
    `meter_free_at`: the latest `ended_at` or `billed_until` of its closed windows; no later one opens before it (B1 D).
    """

    TABLE: ClassVar[str] = "replicas"

    org_id: str
    replica_id: str
    deployment_id: str
    status: ReplicaStatus
    created_at: int
    fail_reason: FailReason | None = None
    last_health_check: int | None = None
    windows_made: int = 0
    meter_free_at: int = 0
    changes_made: int = 0
    ended_at: int | None = None
    window: Window | None = None

    @property
    def row_id(self) -> str:
        """Its id within its org and table."""
        return self.replica_id

    @property
    def health_checked_at(self) -> int | None:
        """Its last health check, wherever it is kept."""
        return self.window.last_health_check if self.window is not None else self.last_health_check


class OrderCount(NamedTuple):
    """How often an order was sent: `sent` in all (its id's n), `attempt` since its state was entered, and when last."""

    sent: int
    attempt: int
    last_minute: int


NEVER_SENT = OrderCount(0, 0, 0)


@dataclass(slots=True, eq=False)
class Instance:
    """An instance (I1), with its open window where a meter runs.

    `entered_at`: when it came into its state (30 min, 1 h). `stop_pending`: a stop timed out, and is asked for
    again (I1). `ran`: it has been running before (I9). `*_free_at` as a replica's `meter_free_at`, per meter.
    """

    TABLE: ClassVar[str] = "instances"

    org_id: str
    instance_id: str
    state: InstanceState
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
    stop_pending: bool = False
    ran: bool = False
    gpu_windows_made: int = 0
    disk_windows_made: int = 0
    gpu_free_at: int = 0
    disk_free_at: int = 0
    changes_made: int = 0
    ended_at: int | None = None
    orders: dict[Order, OrderCount] = field(default_factory=dict)
    window: Window | None = None

    @property
    def row_id(self) -> str:
        """Its id within its org and table."""
        return self.instance_id


@dataclass(slots=True, eq=False)
class Answer:
    """A command's result, word for word, to be given again for 24 h (C1). `value` is its JSON."""

    TABLE: ClassVar[str] = "answers"

    org_id: str
    command_id: str
    at: int
    value: str

    @property
    def row_id(self) -> str:
        """Its id within its org and table."""
        return self.command_id


@dataclass(slots=True, eq=False)
class Seen:
    """An event that was taken in, so that it counts once in 24 h (C4)."""

    TABLE: ClassVar[str] = "events"

    org_id: str
    topic: str
    event_id: str
    at: int

    @property
    def row_id(self) -> str:
        """Its id within its org and table."""
        return f"{self.topic}/{self.event_id}"


Row = Org | Deployment | Replica | Instance | Window | Answer | Seen

ROW_TYPES: tuple[type, ...] = (Org, Deployment, Replica, Instance, Window, Answer, Seen)


def row_key(row: Row) -> bytes:
    """The row's changelog key: `<org_id>/<row_id>`; no id holds a slash."""
    return f"{row.org_id}/{row.row_id}".encode()
