"""Models of the web views' responses, for the OpenAPI document: the contract's fields, and those that the views add."""

from datetime import date
from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from schemas.ids import Money, Rfc3339
from schemas.notices import NoticeKind
from schemas.usage import UsageType
from streams.billing.windows import Held
from streams.lifecycle.deployment import DeploymentStatus
from streams.lifecycle.instance import Action, InstanceState
from streams.lifecycle.replica import FailReason, ReplicaStatus
from streams.meters import METERS, METERS_OF

Count = Annotated[int, Field(ge=0)]
MeterName = Annotated[str, Field(json_schema_extra={"enum": [*METERS]})]
Item = TypeVar("Item")


class View(BaseModel):
    """A response or a part of one. A field without a default is always present; null means unknown or none."""

    model_config = ConfigDict(extra="forbid")


class AsOf(View):
    """The field of every response."""

    as_of: Rfc3339 | None = Field(
        description="The greatest timestamp that the partition has applied; for several partitions, the smallest of "
        "these; null before the first record. The figures of open windows are as of this time."
    )


class Listed(AsOf, Generic[Item]):
    """A page of a list, oldest first."""

    items: list[Item]
    next: str | None = Field(description="The `cursor` of the next page; null on the last page.")


class Place(View):
    """The position of a record in Kafka; the topic name is without the namespace."""

    topic: str
    partition: Count
    offset: Count
    timestamp: Rfc3339


class Conservation(View):
    """The time of windows (B12): running = billed + pending + forgiven − overbilled, and any difference."""

    running_ms: Count = Field(description="Time that the windows were open.")
    billed_ms: Count = Field(description="Time for which usage events were sent.")
    pending_ms: Count = Field(description="Time that is not billed yet.")
    forgiven_ms: Count = Field(description="Time that will not be billed, since no heartbeat covers it (B6).")
    overbilled_ms: Count = Field(description="Time billed beyond a window's end (B10).")
    unexplained_ms: int = Field(description="Difference from conservation; anything but 0 is an alarm.")


class Window(Conservation):
    """A window: one uninterrupted stretch of a meter (B1, I2)."""

    window_id: str
    profile: str
    quantity: Count = Field(description="1, or the disk's size in GB.")
    opened_at: Rfc3339
    ended_at: Rfc3339 | None
    last_health_check: Rfc3339 | None = Field(
        description="The last heartbeat that counts for the window; null: heartbeats do not bound it."
    )
    billed_until: Rfc3339
    credited_ms: Count = Field(description="Credited so far (B13).")
    credit_pending_ms: Count = Field(description="Owed back, not yet sent (B13).")
    held: Held | None = Field(
        description="Why it is not billed, or its credits are not sent, now; the first reason that applies (B9)."
    )
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
    labels: dict[str, str] = Field(description="Its labels (C6).")
    replicas: list[ReplicaOf] = Field(description="The newest 1,000, oldest first.")
    replicas_total: Count = Field(description="How many there are; `…/replicas` lists all of them.")
    model: str
    serving: Literal["dedicated", "serverless"]
    idle_timeout_s: int | None
    active_at: Rfc3339 = Field(description="Start of the idle timeout (P6).")
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
    windows: list[Window] = Field(description="The newest 1,000, oldest first.")
    windows_total: Count = Field(description="How many there are; `…/windows` lists all of them.")
    conservation: Conservation = Field(description="All of its windows added up.")
    created_at: Rfc3339
    ended_at: Rfc3339 | None


class Instance(View):
    """An instance with the windows of its meters (I1)."""

    instance_id: str
    state: InstanceState
    transitional: bool
    meter: str = Field(
        json_schema_extra={"enum": [*(meter.name for meter in METERS_OF["instance"]), "none"]},
        description="Which meter runs (I2).",
    )
    gpus_held: bool
    error_code: str | None
    error_message: str | None
    labels: dict[str, str] = Field(description="Its labels (C6).")
    allowed_actions: list[Action] = Field(description="The actions that a user may request now (I11).")
    windows: list[Window] = Field(description="The newest 1,000, oldest first.")
    windows_total: Count = Field(description="How many there are; `…/windows` lists all of them.")
    conservation: Conservation = Field(description="All of its windows added up.")
    stop_pending: bool = Field(description="A stop timed out, and its order is sent again at each tick (I1).")
    gpu_type: str
    gpu_count: Count
    disk_gb: Count
    offer_id: str
    mode: str
    image: str
    created_at: Rfc3339
    entered_at: Rfc3339 = Field(description="When it entered its state.")
    ended_at: Rfc3339 | None


class OneInstance(Instance, AsOf):
    """`/orgs/{org}/instances/{id}`."""


class DayUsage(View):
    """What an org used and was credited on a UTC day, by type and profile (U1)."""

    day: date
    type: UsageType
    profile: str
    billed_unit_ms: Count = Field(description="Duration in ms times quantity.")
    credited_unit_ms: Count
    cost: Money = Field(description="At Obol's prices, rounded half to even at 6 decimals.")
    credited_cost: Money


class UsageList(Listed[DayUsage]):
    """`/orgs/{org}/usage`."""

    from_: date = Field(alias="from", description="The first day.")
    until: date = Field(description="The day after the last.")
    month: str = Field(description="The current month, such as 2026-11.")
    to_date: Money = Field(description="Its cost so far, less credits.")
    at_end: Money = Field(description="Its cost at its end, at the present burn.")


class SentNotice(View):
    """A notice that was sent to an org (N1)."""

    kind: NoticeKind
    threshold_s: Count | None
    at: Rfc3339


class StillHeard(View):
    """A replica or an instance that is still sending signs of life, though it has ended (R6, I4)."""

    org_id: str
    kind: Literal["replica", "instance"]
    id: str
    since: Rfc3339
    last: Rfc3339


class Org(AsOf):
    """`/orgs/{org}`."""

    org_id: str
    balance: Money | None = Field(
        description="The last balance from Croesus; null: none received, which counts as 0 (I6)."
    )
    epoch: Count | None = Field(description="Of the last balance taken; null before any (C3).")
    sequence: int | None = Field(description="Of the last balance taken; null where it had none (C3).")
    suspended: bool
    burn_per_hour: Money = Field(description="Cost per hour of all that runs (I6).")
    runway_s: Count | None = Field(description="How long the balance lasts, rounded down; null if nothing burns.")
    deployments: dict[DeploymentStatus, Count]
    replicas: dict[ReplicaStatus, Count]
    instances: dict[InstanceState, Count]
    conservation: Conservation
    notices: list[SentNotice] = Field(description="The last 20 notices, oldest first.")
    empty_since: Rfc3339 | None = Field(
        description="Since when the balance has been 0 or less without interruption (I8)."
    )
    auto_stop_at: Rfc3339 | None = Field(description="When running instances will be stopped at the present burn (I7).")
    auto_destroy_at: Rfc3339 | None = Field(
        description="When stopped instances will be destroyed at the present burn (I8)."
    )


class Heartbeat(View):
    """The last heartbeat of a window."""

    at: Rfc3339
    bounds_until: Rfc3339 = Field(description="The window may be billed up to here, 90 s later (B3).")


class KnownPrice(View):
    """The price that applied at a time."""

    price: Money
    currency: str
    unit: str
    since: Rfc3339
    at: Rfc3339
    origin: Place


class CreditedPart(View):
    """A part of a charge that is owed back (B13)."""

    from_: Rfc3339 = Field(alias="from")
    until: Rfc3339
    sent: bool


class Explanation(AsOf):
    """`/orgs/{org}/explain/{usage_id}`: why a charge exists, or why a minute was not charged."""

    usage_id: str
    event_id: str | None = Field(description="The usage event that includes this time; null: none.")
    org_id: str
    charged: bool
    reason: Literal["forgiven", "held", "paused", "not_due", "not_running", "serverless"] | None
    held: Held | None
    detail: str = Field(description="The reason in a sentence, with the rule.")
    interval_start: Rfc3339
    interval_end: Rfc3339
    duration_ms: Count
    window: Window | None
    opened_by: Place | None
    closed_by: Place | None
    last_heartbeat: Heartbeat | None
    usage: Place | None = Field(description="Position of the usage event; null: not found in time.")
    sent_by: Place | None = Field(description="The record that caused the usage event.")
    profile: str | None
    quantity: Count | None
    price: KnownPrice | None
    credits: list[CreditedPart] = Field(description="What of the charge is owed back (B13).")


class PriceSince(View):
    """A price, or none, from a time on."""

    price: Money | None
    since: Rfc3339


class ProfilePrice(PriceSince):
    """A profile's latest price, and those before it."""

    profile: str
    currency: str
    unit: str
    history: list[PriceSince] = Field(description="At most 20, oldest first, including this one.")


class RestoreProgress(View):
    """The progress of a partition's restore."""

    partition: Count
    state: Literal["ready", "restoring"]
    restored_rows: Count
    restore_total: Count | None
    blocked: str | None = Field(description="Why it waits: its inputs can't be read, or its commits are refused.")


class Health(AsOf):
    """`/health`: the process responds."""

    status: Literal["ok"]
    problems: list[str] = Field(description="What an operator should look at, one line each.")


class Ready(AsOf):
    """`/ready`: whether all partitions assigned to this worker are restored, and none is blocked."""

    ready: bool
    partitions: list[RestoreProgress]


class PartitionHead(View):
    """A partition. It has no figures if its owner does not respond."""

    partition: Count
    owner: str | None = Field(description="URL of the partition owner; null: unknown.")
    state: Literal["ready", "restoring", "unknown"]
    as_of: Rfc3339 | None
    lag_records: Count | None = Field(None, description="Records of its inputs that are not applied yet.")
    lag_ms: Count | None = Field(
        None, description="How far its time is behind the newest record that is not applied yet."
    )
    restored_rows: Count | None = None
    restore_total: Count | None = None


class PartitionInFleet(PartitionHead):
    """A partition in the view of the fleet."""

    running_replicas: Count | None = None
    usage_per_minute: Count | None = None
    conservation: Conservation | None = None


class Unexplained(View):
    """An alarm: an org with unexplained time (B12)."""

    org_id: str
    unexplained_ms: int


class WindowCounts(View):
    """Counts of unfinished windows."""

    open: Count
    unfinished: Count = Field(description="Open windows, and closed windows with time left to bill.")
    paused: Count = Field(description="Without heartbeats (B7).")
    held: dict[Held, Count]


class Hour(View):
    """An hour of the last 24."""

    hour: Rfc3339 = Field(description="Its start.")
    events: Count = Field(description="Usage events of clock minutes in this hour that were sent so far.")
    dedicated_replicas: Count = Field(
        description="Replicas of dedicated deployments that were running at its end; in the current hour, as of now."
    )


class Figures(View):
    """Counts and totals of rows and windows."""

    orgs: Count
    suspended_orgs: Count
    running_replicas: Count
    usage_per_minute: Count = Field(description="Windows that send a usage event per minute.")
    deployments: dict[DeploymentStatus, Count]
    replicas: dict[ReplicaStatus, Count]
    instances: dict[InstanceState, Count]
    dead_letters: dict[str, Count] = Field(description="By reason.")
    ignored: dict[str, Count] = Field(description="By reason.")
    windows: WindowCounts
    conservation: Conservation
    zombies: Count = Field(description="Replicas and instances still sending signs of life, though ended (R6, I4).")
    still_heard: list[StillHeard] = Field(description="The first 20 of them.")
    hours: list[Hour] = Field(
        description="The last 24 hours, the current one last; fewer with a shorter `OBOL_RETENTION_H`, or while "
        "partitions are at different hours."
    )
    unexplained: list[Unexplained] = Field(description="At most 20.")


class ReadModelAge(View):
    """The age of the Redis read model from which a response was made."""

    age_ms: Count = Field(description="Age of its oldest partition.")


class FromReadModel(AsOf):
    """A response about all partitions."""

    read_model: ReadModelAge | None = Field(description="null: from the workers' tables.")


class Head(View):
    """A partition that was read for a response."""

    partition: Count
    state: Literal["ready", "restoring"]
    as_of: Rfc3339 | None


class OrgInList(View):
    """An org in a list."""

    org_id: str
    balance: Money | None
    suspended: bool
    running_replicas: Count
    instances: Count = Field(description="Instances that are not destroyed (I5).")


class OrgList(Listed[OrgInList], FromReadModel):
    """`/orgs`: all orgs, ordered by id."""

    heads: list[Head] | None = Field(None, description="The partitions that were read.")


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
    """A row with that id."""

    kind: Literal["org", "deployment", "replica", "instance", "window"]
    org_id: str
    id: str
    state: str | None
    path: str = Field(description="Path of its view.")


class SearchResult(Listed[Found], FromReadModel):
    """`/search?q=`: at most 50 rows of any org."""

    q: str
    heads: list[Head] | None = Field(None, description="The partitions that were read.")


class Fleet(Figures, FromReadModel):
    """`/`: totals over all partitions."""

    complete: Literal[True]
    currency: str
    lag_records: Count | None
    partitions: list[PartitionInFleet]


class PartitionFigures(PartitionHead, Figures):
    """The figures of one partition."""


class Problem(AsOf):
    """An error (RFC 9457). A 503 also has what is known about the fleet or the partitions."""

    model_config = ConfigDict(extra="allow")

    type: str
    title: str
    status: int
    detail: str = Field(description="The error and the fix.")
    instance: str = Field(description="The requested path.")
