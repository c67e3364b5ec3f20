"""The table of meters: what running time is billed for (rules B1, B3, B23, I2, I6), one row each.

Windows, burn, billing, views, documents and the stand-in Croesus read this table. A meter's rows in the billing output
are its usage events (`schemas/usage.py`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final, Generic, Literal, Protocol, TypeVar

from schemas.usage import UsageType
from streams.lifecycle.instance import STAGES
from streams.lifecycle.replica import ReplicaStatus

OwnerKind = Literal["replica", "instance"]

OWNER_KINDS: Final[tuple[OwnerKind, ...]] = ("replica", "instance")
"""What windows belong to, in the order in which a tick bills them."""


class ReplicaSpecification(Protocol):
    """What the meters of a replica read: its deployment."""

    @property
    def serving(self) -> str:
        """`dedicated` or `serverless`."""

    @property
    def gpu_type(self) -> str:
        """The GPU model."""

    @property
    def gpu_count(self) -> int:
        """GPUs of each replica."""


class InstanceSpecification(Protocol):
    """What the meters of an instance read: its own row."""

    @property
    def gpu_type(self) -> str:
        """The GPU model."""

    @property
    def gpu_count(self) -> int:
        """GPUs."""

    @property
    def disk_gb(self) -> int:
        """Disk, in GB."""


SpecificationT = TypeVar("SpecificationT")


@lru_cache(maxsize=1_024)
def dedicated_profile(gpu_type: str, gpu_count: int) -> str:
    """Return the profile of a dedicated replica, priced per hour: dedicated.h100.1x (B1)."""
    return f"dedicated.{gpu_type}.{gpu_count}x"


@lru_cache(maxsize=1_024)
def instance_profile(gpu_type: str, gpu_count: int) -> str:
    """Return the profile of an instance's GPUs, priced per hour: instance.a100.2x."""
    return f"instance.{gpu_type}.{gpu_count}x"


@dataclass(frozen=True, kw_only=True)
class Meter(Generic[SpecificationT]):
    """A meter.

    `id_part`: the part of window and usage ids that names the meter, without separators; empty for a replica's.
    `profile` and `quantity` read the specification; quantity 0: the meter does not apply. `unit`: what a price of its
    profiles is for; `family`: their first part. `runs_in`: the owner's statuses or stages in which a window is open.
    `burns_in`: those in which it counts for the burn (I6).
    `bound_by_heartbeats`: B3's cap. `switched`: governed by B20 and B21. `settles`: a change of state bills what is
    owed in its own transaction (I2); else the next tick does.
    """

    name: str
    usage_type: UsageType
    owner: OwnerKind
    id_part: str
    family: str
    unit: str
    profile: Callable[[SpecificationT], str]
    quantity: Callable[[SpecificationT], int]
    runs_in: frozenset[str]
    burns_in: frozenset[str]
    bound_by_heartbeats: bool
    switched: bool
    settles: bool

    def window_id(self, owner_id: str, number: int) -> str:
        """Return the id of the owner's window with that number, from 1 (contract, "Out")."""
        part = f".{self.id_part}" if self.id_part else ""
        return f"{owner_id}{part}.w{number}"

    def usage_prefix(self, owner_id: str) -> str:
        """Return the id of a usage event up to its `interval_start` (contract, "Out")."""
        return f"{owner_id}:{self.id_part}:" if self.id_part else f"{owner_id}:"


def _stages(facts: Literal["runs", "burns"], meter: str) -> frozenset[str]:
    """Return the instance's stages whose row names `meter` under `facts`."""
    return frozenset(stage for stage, row in STAGES.items() if meter in getattr(row, facts))


METERS: Final[Mapping[str, Meter[Any]]] = MappingProxyType(
    {
        meter.name: meter
        for meter in (
            Meter[ReplicaSpecification](
                name="dedicated",
                usage_type="dedicated_inference_running",
                owner="replica",
                id_part="",
                family="dedicated",
                unit="per hour",
                profile=lambda row: dedicated_profile(row.gpu_type, row.gpu_count),
                quantity=lambda row: int(row.serving == "dedicated"),
                runs_in=frozenset({ReplicaStatus.RUNNING}),
                burns_in=frozenset({ReplicaStatus.RUNNING}),
                bound_by_heartbeats=True,
                switched=True,
                settles=False,
            ),
            Meter[InstanceSpecification](
                name="gpu",
                usage_type="instance_gpu_running",
                owner="instance",
                id_part="gpu",
                family="instance",
                unit="per hour",
                profile=lambda row: instance_profile(row.gpu_type, row.gpu_count),
                quantity=lambda _: 1,
                runs_in=_stages("runs", "gpu"),
                burns_in=_stages("burns", "gpu"),
                bound_by_heartbeats=False,
                switched=False,
                settles=True,
            ),
            Meter[InstanceSpecification](
                name="disk",
                usage_type="instance_disk_stopped",
                owner="instance",
                id_part="disk",
                family="disk",
                unit="per GB per hour",
                profile=lambda _: "disk",
                quantity=lambda row: row.disk_gb,
                runs_in=_stages("runs", "disk"),
                burns_in=_stages("burns", "disk"),
                bound_by_heartbeats=False,
                switched=False,
                settles=True,
            ),
        )
    }
)
"""Every meter by its name, in the order in which views list them."""

METERS_OF: Final[Mapping[OwnerKind, tuple[Meter[Any], ...]]] = MappingProxyType(
    {kind: tuple(meter for meter in METERS.values() if meter.owner == kind) for kind in OWNER_KINDS}
)
"""The meters of each kind of owner."""

_UNITS: Final = {meter.family: meter.unit for meter in METERS.values()}


def unit_of(profile: str) -> str:
    """Return what a price of `profile` is for; "per hour" where no meter has such profiles."""
    return _UNITS.get(profile.partition(".")[0], "per hour")


def burn_units(kind: OwnerKind, stage: str, specification: Any) -> dict[str, int]:
    """Return how many units of each profile an owner adds to the burn in a stage or status (I6)."""
    return {
        meter.profile(specification): quantity
        for meter in METERS_OF[kind]
        if stage in meter.burns_in and (quantity := meter.quantity(specification))
    }
