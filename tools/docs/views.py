"""The answers of the web views as models, for the OpenAPI document: the contract's fields, and what the views add."""

from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from schemas.ids import Money, Rfc3339
from streams.billing.windows import Held
from streams.lifecycle.deployment import DeploymentStatus
from streams.lifecycle.instance import Action, InstanceState
from streams.lifecycle.replica import FailReason, ReplicaStatus
from streams.meters import METERS

Count = Annotated[int, Field(ge=0)]
MeterName = Annotated[str, Field(json_schema_extra={"enum": [*METERS]})]
Item = TypeVar("Item")


class View(BaseModel):
    """An answer, or a part of one. Every field without a default is always there, null where nothing is known."""

    model_config = ConfigDict(extra="forbid")


class AsOf(View):
    """What every answer has."""

    as_of: Rfc3339 | None = Field(
        description="The greatest time read in order in that partition, over several the smallest; null before any. "
        "Figures of open windows are as of then."
    )


class Listed(AsOf, Generic[Item]):
    """A page of a list, oldest first."""

    items: list[Item]
    next: str | None = Field(description="The `cursor` of the next page; null: this is the last.")


class Place(View):
    """A record in Kafka; the topic without namespace."""

    topic: str
    partition: Count
    offset: Count
    timestamp: Rfc3339


class Conservation(View):
    """Where time stands (B12): running = billed + pending + forgiven − overbilled; what that leaves is unexplained."""

    running_ms: Count = Field(description="Time that the windows were open.")
    billed_ms: Count = Field(description="Time that usage events were sent for.")
    pending_ms: Count = Field(description="Time that is still to be billed.")
    forgiven_ms: Count = Field(description="Time that never will be, as no heartbeat covers it (B6).")
    overbilled_ms: Count = Field(description="Time billed beyond a window's end (B10).")
    unexplained_ms: int = Field(description="0, or an alarm.")


class Window(Conservation):
    """A running window: one stretch of a meter (B1, I2), whole."""

    window_id: str
    profile: str
    quantity: Count = Field(description="1, or the disk's size in GB.")
    opened_at: Rfc3339
    ended_at: Rfc3339 | None
    last_health_check: Rfc3339 | None = Field(description="The last heartbeat that counts for it; null: not capped.")
    billed_until: Rfc3339
    held: Held | None = Field(description="Why it is not billed at the moment: the first reason that holds (B9).")
    meter: MeterName
    opened_by: Place
    closed_by: Place | None


class OneWindow(Window, AsOf):
    """`/orgs/{org}/windows/{window_id}`."""

    owner_id: str = Field(description="The replica or the instance.")
    deployment_id: str | None


class ReplicaOf(View):
    """A replica as its deployment lists it."""

    replica_id: str
    status: ReplicaStatus


class Deployment(View):
    """A deployment with its replicas (P1)."""

    deployment_id: str
    status: DeploymentStatus
    current_replicas: Count = Field(description="Replicas in running (R5).")
    min_replicas: Count
    profile: str
    replicas: list[ReplicaOf] = Field(description="Oldest first.")
    model: str
    serving: Literal["dedicated", "serverless"]
    idle_timeout_s: int | None
    active_at: Rfc3339 = Field(description="From when on it may idle (P6).")
    created_at: Rfc3339
    ended_at: Rfc3339 | None


class OneDeployment(Deployment, AsOf):
    """`/orgs/{org}/deployments/{id}`."""


class Replica(AsOf):
    """`/orgs/{org}/replicas/{id}` (R1)."""

    replica_id: str
    deployment_id: str
    status: ReplicaStatus
    fail_reason: FailReason | None
    last_health_check: Rfc3339 | None
    windows: list[Window] = Field(description="Oldest first.")
    created_at: Rfc3339
    ended_at: Rfc3339 | None


class Instance(View):
    """An instance with the windows of its meters (I1)."""

    instance_id: str
    state: InstanceState
    transitional: bool
    meter: str = Field(json_schema_extra={"enum": [*METERS, "none"]}, description="Which meter runs (I2).")
    gpus_held: bool
    error_code: str | None
    error_message: str | None
    allowed_actions: list[Action] = Field(description="What a user may ask for now (I11).")
    windows: list[Window] = Field(description="Oldest first.")
    stop_pending: bool = Field(description="A stop timed out and is asked for again at each tick (I1).")
    gpu_type: str
    gpu_count: Count
    disk_gb: Count
    offer_id: str
    mode: str
    image: str
    created_at: Rfc3339
    entered_at: Rfc3339 = Field(description="When it came into its state.")
    ended_at: Rfc3339 | None


class OneInstance(Instance, AsOf):
    """`/orgs/{org}/instances/{id}`."""


class Org(AsOf):
    """`/orgs/{org}`: its money and how long it lasts, and all its rows counted by state."""

    org_id: str
    balance: Money | None = Field(description="As Croesus last said; null: never heard, which counts as 0 (I6).")
    suspended: bool
    burn_per_hour: Money = Field(description="What its running things cost (I6).")
    runway_s: Count | None = Field(description="How long the balance lasts, rounded down; null without burn.")
    deployments: dict[DeploymentStatus, Count]
    replicas: dict[ReplicaStatus, Count]
    instances: dict[InstanceState, Count]
    conservation: Conservation
    empty_since: Rfc3339 | None = Field(description="Since when the balance is at or below 0 without a break (I8).")
    auto_stop_at: Rfc3339 | None = Field(description="When running instances would be stopped at this burn (I7).")
    auto_destroy_at: Rfc3339 | None = Field(description="When stopped ones would be destroyed at this burn (I8).")


class Heartbeat(View):
    """The heartbeat that bounds a window."""

    at: Rfc3339
    bounds_until: Rfc3339 = Field(description="90 s later (B3).")


class KnownPrice(View):
    """The price that held at a time."""

    price: Money
    currency: str
    unit: str
    since: Rfc3339
    at: Rfc3339
    origin: Place


class Explanation(AsOf):
    """`/orgs/{org}/explain/{usage_id}`: why a charge exists, or why a minute was not charged."""

    usage_id: str
    event_id: str | None = Field(description="The usage event that holds this time; null: there is none.")
    org_id: str
    charged: bool
    reason: Literal["forgiven", "held", "paused", "not_due", "not_running", "serverless"] | None
    held: Held | None
    detail: str = Field(description="The whole reason in a sentence, with its rule.")
    interval_start: Rfc3339
    interval_end: Rfc3339
    duration_ms: Count
    window: Window | None
    opened_by: Place | None
    closed_by: Place | None
    last_heartbeat: Heartbeat | None
    usage: Place | None = Field(description="Where the usage event stands; null: not found in time.")
    sent_by: Place | None = Field(description="The tick or the change that sent it.")
    profile: str | None
    quantity: Count | None
    price: KnownPrice | None


class PriceSince(View):
    """A price, or none, from a time on."""

    price: Money | None
    since: Rfc3339


class ProfilePrice(PriceSince):
    """A profile's latest price, and those before it."""

    profile: str
    currency: str
    unit: str
    history: list[PriceSince] = Field(description="Oldest first, this one last; at most 20.")


class RestoreProgress(View):
    """How far a partition's rows are back."""

    partition: Count
    state: Literal["ready", "restoring"]
    restored_rows: Count
    restore_total: Count | None


class Health(AsOf):
    """`/health`: the process is there and its loop turns."""

    status: Literal["ok"]


class Ready(AsOf):
    """`/ready`: whether all partitions assigned to this worker have their rows."""

    ready: bool
    partitions: list[RestoreProgress]


class PartitionHead(View):
    """A partition where nobody answers for it has no figures."""

    partition: Count
    owner: str | None = Field(description="The worker that has it; null: nobody is known to.")
    state: Literal["ready", "restoring", "unknown"]
    as_of: Rfc3339 | None
    lag_records: Count | None = Field(None, description="Records that wait in its inbound topics.")
    lag_ms: Count | None = Field(None, description="How far its time is behind the newest record that waits.")
    restored_rows: Count | None = None
    restore_total: Count | None = None


class PartitionInFleet(PartitionHead):
    """A partition as the fleet lists it."""

    running_replicas: Count | None = None
    usage_per_minute: Count | None = None
    conservation: Conservation | None = None


class Unexplained(View):
    """An alarm: an org with unexplained time (B12)."""

    org_id: str
    unexplained_ms: int


class WindowCounts(View):
    """Windows that are not done."""

    open: Count
    unfinished: Count = Field(description="Open ones, and closed ones with something left to bill.")
    paused: Count = Field(description="Without heartbeats (B7).")
    held: dict[Held, Count]


class Figures(View):
    """Rows and windows, counted and added up."""

    orgs: Count
    suspended_orgs: Count
    running_replicas: Count
    usage_per_minute: Count = Field(description="Windows that send a usage event a minute.")
    deployments: dict[DeploymentStatus, Count]
    replicas: dict[ReplicaStatus, Count]
    instances: dict[InstanceState, Count]
    dead_letters: dict[str, Count] = Field(description="By reason.")
    ignored: dict[str, Count] = Field(description="By reason.")
    windows: WindowCounts
    conservation: Conservation
    unexplained: list[Unexplained] = Field(description="At most 20.")


class ReadModelAge(View):
    """That an answer came from the Redis read model."""

    age_ms: Count = Field(description="How long ago the oldest of it was written.")


class FromReadModel(AsOf):
    """An answer over all partitions."""

    read_model: ReadModelAge | None = Field(description="null: from the workers' own tables.")


class Head(View):
    """A partition that was looked at."""

    partition: Count
    state: Literal["ready", "restoring"]
    as_of: Rfc3339 | None


class OrgInList(View):
    """An org as lists have it."""

    org_id: str
    balance: Money | None
    suspended: bool
    running_replicas: Count
    instances: Count = Field(description="Those that are not destroyed (I5).")


class OrgList(Listed[OrgInList], FromReadModel):
    """`/orgs`: every org, in order of its id."""

    heads: list[Head] | None = Field(None, description="The partitions that were looked at.")


class KeptRow(View):
    """A row of a table as it is kept; its form may change."""

    key: str = Field(description="`<org_id>/<row_id>`; of `positions`, the partition's number.")
    partition: Count
    row: dict[str, Any]


class OneRow(KeptRow, AsOf):
    """`/tables/{table}/{org}/{id}`."""

    table: str


class RowList(Listed[KeptRow]):
    """`/tables/{table}/`: the rows of all partitions, in order of org and id."""

    table: str
    description: str
    heads: list[Head] = Field(description="The partitions that were looked at.")


class Table(View):
    """One of Faust's tables."""

    table: str
    description: str = Field(description="What a row is.")
    path: str = Field(description="Where its rows are listed.")


class Found(View):
    """Something with that id."""

    kind: Literal["org", "deployment", "replica", "instance", "window"]
    org_id: str
    id: str
    state: str | None
    path: str = Field(description="Where its view is.")


class SearchResult(Listed[Found], FromReadModel):
    """`/search?q=`: what has that id in whatever org; at most 50."""

    q: str
    heads: list[Head] | None = Field(None, description="The partitions that were looked at.")


class Fleet(Figures, FromReadModel):
    """`/`: all partitions added up."""

    complete: Literal[True]
    currency: str
    lag_records: Count | None
    partitions: list[PartitionInFleet]


class PartitionFigures(PartitionHead, Figures):
    """A partition's own numbers."""


class Problem(AsOf):
    """What went wrong (RFC 9457). A 503 also has what is known of the fleet or of the partitions."""

    model_config = ConfigDict(extra="allow")

    type: str
    title: str
    status: int
    detail: str = Field(description="What is wrong and how to mend it.")
    instance: str = Field(description="The path that was asked for.")
