"""Every topic of the wire contract, one row each. Names are without the namespace."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Literal

from schemas.accounts import Account, OrgReinstated, OrgSuspended
from schemas.changes import LifecycleChange
from schemas.clock import Tick
from schemas.commands import Command
from schemas.credits import Credit
from schemas.dead_letters import DeadLetter
from schemas.heartbeats import Heartbeat
from schemas.notices import Notice
from schemas.operator import OperatorCommand
from schemas.orders import ExecletOrder, HostOrder
from schemas.prices import Price
from schemas.progress import Progress
from schemas.reports import LaunchFailed, OtherReport, Report
from schemas.requests import InferenceRequest
from schemas.results import CommandResult
from schemas.usage import Usage

Timestamps = Literal["broker", "producer"]
"""`OBOL_TIMESTAMPS`: whether the broker or the producer sets the timestamp of an inbound record."""

EntityKind = Literal["deployment", "replica", "instance"]
"""The kinds of entities that a record can be about."""

TimestampType = Literal["LogAppendTime", "CreateTime"]
"""Kafka's `message.timestamp.type`."""

_MINUTE_MS: Final = 60_000
_HOUR_MS: Final = 60 * _MINUTE_MS
_DAY_MS: Final = 24 * _HOUR_MS
_FOR_EVER_MS: Final = -1

_MAX_MESSAGE_BYTES: Final = 1_048_588
"""Kafka's default, set explicitly: a value over 64 KiB must be stored to become a dead letter `too_large`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSpec:
    """A topic: its direction, its records and its retention.

    `schema` is a model or a union of models. `one_partition` topics ignore `OBOL_PARTITIONS`. None is compacted.

    Inbound topics only: `rank` orders records of one timestamp (contract, "In"). `handler` is the function of
    `streams.rules` that applies a record, as `<module>:<function>`; None for prices, which are read separately.
    `entity`: what a record is about; its field `<entity>_id` must name one of its org, else the record becomes a
    dead letter, `unknown_<entity>`. `once`: the models whose `event_id` is applied once in 24 h (C4).
    `max_ahead_ms`: how far a record's timestamp may be ahead of the broker's clock.
    """

    name: str
    direction: Literal["in", "out"]
    summary: str
    key: str
    schema: Any
    rank: int | None = None
    handler: str | None = None
    entity: EntityKind | None = None
    once: tuple[type[Any], ...] = ()
    retention_ms: int = 7 * _DAY_MS
    max_ahead_ms: int = _HOUR_MS
    one_partition: bool = False

    def partitions(self, partitions: int) -> int:
        """Return its number of partitions if `OBOL_PARTITIONS` is `partitions`."""
        return 1 if self.one_partition else partitions

    def timestamp_type(self, timestamps: Timestamps) -> TimestampType:
        """Return the topic's timestamp type. An outbound record has the time of its cause, set by its producer."""
        return "LogAppendTime" if self.direction == "in" and timestamps == "broker" else "CreateTime"

    def config(self, timestamps: Timestamps, replication: int) -> dict[str, str]:
        """Return Kafka's configuration of the topic.

        With producers' timestamps nothing expires: retention counts from a record's timestamp, which may be long past
        in a replay.
        """
        retention_ms = self.retention_ms if timestamps == "broker" else _FOR_EVER_MS
        config = {
            "cleanup.policy": "delete",
            "retention.ms": str(retention_ms),
            # Where the brokers limit a log's bytes, one org's flood would push out what others have there.
            "retention.bytes": str(_FOR_EVER_MS),
            "message.timestamp.type": self.timestamp_type(timestamps),
            "max.message.bytes": str(_MAX_MESSAGE_BYTES),
            "min.insync.replicas": str(min_in_sync(replication)),
        }
        if self.direction == "in":
            config["message.timestamp.after.max.ms"] = str(self.max_ahead_ms)
        return config


def min_in_sync(replication: int) -> int:
    """Return `min.insync.replicas`: one replica may be unavailable."""
    return max(1, replication - 1)


_BY_ORG: Final = "`org_id`; it decides the partition"

PRICES: Final = TopicSpec(
    name="croesus.prices",
    direction="in",
    rank=0,
    summary="The price of a profile per hour, from the record's timestamp on; an empty value removes the price.",
    key="the profile",
    schema=Price,
    retention_ms=_FOR_EVER_MS,
    one_partition=True,
)
ACCOUNTS: Final = TopicSpec(
    name="croesus.accounts",
    direction="in",
    rank=1,
    summary="Balances and suspensions of orgs.",
    key=_BY_ORG,
    schema=Account,
    handler="accounts:apply_account",
    once=(OrgSuspended, OrgReinstated),
)
COMMANDS: Final = TopicSpec(
    name="user.commands",
    direction="in",
    rank=2,
    summary="Users' commands; each gets one result.",
    key=_BY_ORG,
    schema=Command,
    handler="commands:apply_command",
)
OPERATOR_COMMANDS: Final = TopicSpec(
    name="operator.commands",
    direction="in",
    rank=3,
    summary="Operators' commands: credits for a window; each gets one result.",
    key=_BY_ORG,
    schema=OperatorCommand,
    handler="commands:apply_command",
)
REQUESTS: Final = TopicSpec(
    name="inference.requests",
    direction="in",
    rank=4,
    summary="Inference requests to deployments: they restart the idle timeout and resume paused deployments.",
    key=_BY_ORG,
    schema=InferenceRequest,
    handler="deployments:apply_request",
    entity="deployment",
)
PROGRESS: Final = TopicSpec(
    name="execlet.progress",
    direction="in",
    rank=5,
    summary="Callbacks about the start and the end of replicas.",
    key=_BY_ORG,
    schema=Progress,
    handler="progress:apply_progress",
    entity="replica",
    once=(Progress,),
)
REPORTS: Final = TopicSpec(
    name="host.reports",
    direction="in",
    rank=6,
    summary="Hosts' reports about the workloads of instances.",
    key=_BY_ORG,
    schema=Report,
    handler="reports:apply_report",
    entity="instance",
    once=(LaunchFailed, OtherReport),
)
HEARTBEATS: Final = TopicSpec(
    name="execlet.heartbeats",
    direction="in",
    rank=7,
    summary="Heartbeats of replicas.",
    key=_BY_ORG,
    schema=Heartbeat,
    handler="heartbeats:apply_heartbeats",
    entity="replica",
)
CLOCK: Final = TopicSpec(
    name="obol.clock",
    direction="in",
    rank=8,
    summary="A tick for each partition and minute; its timestamp is now.",
    key="none; each partition has its own",
    schema=Tick,
    handler="tick:apply_tick",
    max_ahead_ms=5 * _MINUTE_MS,
)

USAGE: Final = TopicSpec(
    name="croesus.usage",
    direction="out",
    summary="Usage events: pieces of windows, at most a clock minute each.",
    key=_BY_ORG,
    schema=Usage,
    retention_ms=30 * _DAY_MS,
)
CREDITS: Final = TopicSpec(
    name="croesus.credits",
    direction="out",
    summary="Credits: what is taken back of usage events.",
    key=_BY_ORG,
    schema=Credit,
    retention_ms=30 * _DAY_MS,
)
NOTICES: Final = TopicSpec(
    name="org.notices",
    direction="out",
    summary="Notices for customers about a low or empty balance.",
    key=_BY_ORG,
    schema=Notice,
    retention_ms=30 * _DAY_MS,
)
CHANGES: Final = TopicSpec(
    name="lifecycle.changes",
    direction="out",
    summary="Every change of state of a deployment, replica or instance.",
    key=_BY_ORG,
    schema=LifecycleChange,
    retention_ms=30 * _DAY_MS,
)
RESULTS: Final = TopicSpec(
    name="command.results",
    direction="out",
    summary="The result of each command.",
    key=_BY_ORG,
    schema=CommandResult,
)
EXECLET_ORDERS: Final = TopicSpec(
    name="execlet.orders",
    direction="out",
    summary="Orders to execlets: submit or abort a job.",
    key=_BY_ORG,
    schema=ExecletOrder,
)
HOST_ORDERS: Final = TopicSpec(
    name="host.orders",
    direction="out",
    summary="Orders to hosts about instances.",
    key=_BY_ORG,
    schema=HostOrder,
)
DEAD_LETTERS: Final = TopicSpec(
    name="dead.letters",
    direction="out",
    summary="Every record that could not be applied, with the reason.",
    key="none; the partition is the origin's",
    schema=DeadLetter,
    retention_ms=30 * _DAY_MS,
)

INBOUND: Final = (PRICES, ACCOUNTS, COMMANDS, OPERATOR_COMMANDS, REQUESTS, PROGRESS, REPORTS, HEARTBEATS, CLOCK)
"""Inbound topics, in order of rank."""

OUTBOUND: Final = (USAGE, CREDITS, NOTICES, CHANGES, RESULTS, EXECLET_ORDERS, HOST_ORDERS, DEAD_LETTERS)
"""Outbound topics, in the contract's order."""

TOPICS: Final[Mapping[str, TopicSpec]] = MappingProxyType({spec.name: spec for spec in INBOUND + OUTBOUND})
"""Every topic by its name without namespace."""


def with_namespace(name: str, namespace: str | None) -> str:
    """Return a topic's full name, `<OBOL_NAMESPACE>.<name>`, or `name` itself without a namespace."""
    return f"{namespace}.{name}" if namespace else name


def without_namespace(full_name: str, namespace: str | None) -> str:
    """Return the catalogue's name of a topic, given by its full name. Raises `ValueError` for another namespace."""
    if not namespace:
        return full_name
    prefix = f"{namespace}."
    if not full_name.startswith(prefix):
        msg = f"topic {full_name!r} is not in the namespace {namespace!r}"
        raise ValueError(msg)
    return full_name.removeprefix(prefix)
