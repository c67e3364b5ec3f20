"""What the fleet says: orgs, deployments of a hundred replicas, their records as bytes. Times are UTC milliseconds."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from bench.sizes import REPLICAS_PER_DEPLOYMENT
from topics.partitioner import partition_of

PROFILE: Final = "dedicated.h100.1x"
BIG_ORG: Final = "org-000000"

_BIG_ORG_SHARE: Final = 10
"""One deployment in so many belongs to the big org: pages and ticks must bear an org that is far larger than others."""


class Keyed(NamedTuple):
    """A record without its time."""

    key: bytes
    value: bytes


Placed = dict[int, list[Keyed]]
"""Records by partition, in their order."""


@dataclass(frozen=True, slots=True)
class Fleet:
    """`replicas` replicas, a multiple of 100, over `partitions` partitions."""

    replicas: int
    partitions: int
    deployments: list[tuple[str, str]] = field(init=False)

    def __post_init__(self) -> None:
        """List the deployments, each with its org."""
        count = self.replicas // REPLICAS_PER_DEPLOYMENT
        orgs = (BIG_ORG if at % _BIG_ORG_SHARE == 0 else f"org-{at:06}" for at in range(count))
        object.__setattr__(self, "deployments", [(org, f"dep-{at:06}") for at, org in enumerate(orgs)])

    @property
    def orgs(self) -> list[str]:
        """Every org."""
        return list(dict.fromkeys(org for org, _ in self.deployments))

    def each_replica(self) -> Iterator[tuple[str, str]]:
        """Every (org, replica)."""
        for org, deployment in self.deployments:
            for number in range(1, REPLICAS_PER_DEPLOYMENT + 1):
                yield org, f"{deployment}-r{number}"

    def commands(self) -> Placed:
        """A `create_deployment` for each deployment."""
        return self._place(
            (
                org,
                (
                    f'{{"command_id":"create-{deployment}","type":"create_deployment","org_id":"{org}",'
                    f'"deployment_id":"{deployment}","model":"llama-3-8b","gpu_type":"h100","gpu_count":1,'
                    f'"min_replicas":{REPLICAS_PER_DEPLOYMENT}}}'
                ),
            )
            for org, deployment in self.deployments
        )

    def starts(self) -> Placed:
        """A progress callback for each replica: it runs."""
        return self._place(
            (
                org,
                (
                    f'{{"event_id":"up-{replica}","org_id":"{org}","replica_id":"{replica}","status":"RUNNING",'
                    f'"message":"Model server is healthy"}}'
                ),
            )
            for org, replica in self.each_replica()
        )

    def heartbeats(self) -> Placed:
        """One heartbeat of each replica."""
        return self._place(
            (org, f'{{"org_id":"{org}","replica_id":"{replica}"}}') for org, replica in self.each_replica()
        )

    def requests(self, count: int) -> Placed:
        """`count` inference requests, spread over the deployments."""
        return self._place(
            (org, f'{{"org_id":"{org}","deployment_id":"{deployment}"}}')
            for org, deployment in (self.deployments[at % len(self.deployments)] for at in range(count))
        )

    def _place(self, records: Iterator[tuple[str, str]]) -> Placed:
        placed: Placed = defaultdict(list)
        for org, value in records:
            placed[partition_of(org, self.partitions)].append(Keyed(org.encode(), value.encode()))
        return dict(placed)


def count(placed: Placed) -> int:
    """How many records there are."""
    return sum(map(len, placed.values()))


def prices() -> Sequence[Keyed]:
    """Give the price of the fleet's profile."""
    return [Keyed(PROFILE.encode(), f'{{"profile":"{PROFILE}","price":"300","currency":"JPY"}}'.encode())]
