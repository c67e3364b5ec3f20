"""The JSON that workers exchange about their partitions, by Redis and by HTTP, and its validation.

It is validated when it is read: Redis, and a worker of another version, may have something else. Fields that a newer
worker adds are kept.
"""

from typing import Annotated, Final, Literal, NotRequired

from pydantic import AfterValidator, ConfigDict, Field, ValidationError, with_config
from typing_extensions import TypedDict

from schemas.base import Json
from schemas.ids import Id, Money
from schemas.times import parse_rfc3339, rfc3339
from streams.rules.store import OrgRows

Count = Annotated[int, Field(ge=0)]
Counts = dict[str, Count]
Time = Annotated[str, AfterValidator(lambda text: rfc3339(parse_rfc3339(text)))]
_Known: Final = with_config(ConfigDict(extra="allow", strict=True))


@_Known
class Head(TypedDict):
    """A partition that was read for a response."""

    partition: Count
    state: Literal["ready", "restoring"]
    as_of: Time | None


@_Known
class UnknownPartition(TypedDict):
    """A partition whose owner does not respond."""

    partition: Count
    owner: str | None
    state: Literal["unknown"]
    as_of: None


@_Known
class RestoringPartition(TypedDict):
    """A partition without figures, as its rows are being restored."""

    partition: Count
    owner: str | None
    state: Literal["restoring"]
    as_of: Time | None
    lag_records: Count | None
    lag_ms: Count | None
    restored_rows: Count
    restore_total: Count | None


@_Known
class WindowCounts(TypedDict):
    """Windows that are not done."""

    open: Count
    unfinished: Count
    paused: Count
    held: Counts


@_Known
class Conservation(TypedDict):
    """What became of the windows' time (B12)."""

    running_ms: Count
    billed_ms: Count
    pending_ms: Count
    forgiven_ms: Count
    overbilled_ms: Count
    unexplained_ms: int


@_Known
class Unexplained(TypedDict):
    """An org with unexplained time."""

    org_id: Id
    unexplained_ms: int


@_Known
class StillHeard(TypedDict):
    """A replica or an instance that is still sending signs of life, though it has ended (R6, I4)."""

    org_id: Id
    kind: Literal["replica", "instance"]
    id: str
    since: Time
    last: Time


@_Known
class HourOfPartition(TypedDict):
    """An hour's usage events, and its running dedicated replicas at the end."""

    hour: Time
    events: Count
    dedicated_replicas: Count


@_Known
class ReadyPartition(TypedDict):
    """A partition with its figures."""

    partition: Count
    owner: str | None
    state: Literal["ready"]
    as_of: Time | None
    lag_records: Count | None
    lag_ms: Count | None
    restored_rows: Count
    restore_total: Count | None
    orgs: Count
    suspended_orgs: Count
    running_replicas: Count
    usage_per_minute: Count
    deployments: Counts
    replicas: Counts
    instances: Counts
    dead_letters: Counts
    ignored: Counts
    windows: WindowCounts
    conservation: Conservation
    zombies: Count
    still_heard: list[StillHeard]
    hours: NotRequired[list[HourOfPartition]]
    unexplained: list[Unexplained]


@_Known
class OrgItem(TypedDict):
    """An org in a list."""

    org_id: Id
    balance: Money | None
    suspended: bool
    running_replicas: int
    instances: Count


@_Known
class FoundItem(TypedDict):
    """Something that has an id, and where its view is."""

    kind: Literal["org", "deployment", "replica", "instance", "window"]
    org_id: Id
    id: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,199}$")]
    state: Annotated[str, Field(pattern=r"^[a-z_]{1,64}$")] | None
    path: Annotated[str, Field(pattern=r"^/orgs/[A-Za-z0-9./_-]*$")]


Partition = Annotated[ReadyPartition | RestoringPartition | UnknownPartition, Field(discriminator="state")]


def problem_of(error: Exception) -> str:
    """Return what is malformed, in ASCII and short: for a log."""
    text = str(error)
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False)[0]
        text = f"{first['msg']} at {'.'.join(map(str, first['loc'])) or 'the top'}"
    return ascii(text[:200])


def org_item(org: OrgRows) -> Json:
    """Return an org as lists have it."""
    return {
        "org_id": org.org.org_id,
        "balance": org.org.balance,
        "suspended": org.org.suspended,
        "running_replicas": sum(row.current_replicas for row in org.deployments.values()),
        "instances": len(org.live_instances),
    }


def found_item(kind: str, org_id: str, entity_id: str, state: str | None) -> Json:
    """Return something that was found, and where its view is."""
    path = f"/orgs/{org_id}" if kind == "org" else f"/orgs/{org_id}/{kind}s/{entity_id}"
    return {"kind": kind, "org_id": org_id, "id": entity_id, "state": state, "path": path}
