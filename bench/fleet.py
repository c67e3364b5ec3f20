"""The records of the benchmarks' fleet, as bytes: orgs with deployments of a hundred replicas."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from bench.sizes import REPLICAS_PER_DEPLOYMENT
from schemas.times import rfc3339
from topics.partitioner import partition_of

PROFILE: Final = "dedicated.h100.1x"
BIG_ORG: Final = "org-000000"

_BIG_ORG_SHARE: Final = 10
"""One in this many deployments belongs to the big org, which is therefore much larger than the others."""


class KeyValue(NamedTuple):
    """A record without its timestamp."""

    key: bytes
    value: bytes


RecordsByPartition = dict[int, list[KeyValue]]
"""Records by partition, in order."""


@dataclass(frozen=True, slots=True)
class Fleet:
    """A fleet of `replicas` replicas (a multiple of 100) over `partitions` partitions. `one_org`: all of one org."""

    replicas: int
    partitions: int
    one_org: bool = False
    deployments: list[tuple[str, str]] = field(init=False)

    def __post_init__(self) -> None:
        """Create the list of (org, deployment)."""
        count = self.replicas // REPLICAS_PER_DEPLOYMENT
        orgs = (BIG_ORG if self.one_org or at % _BIG_ORG_SHARE == 0 else f"org-{at:06}" for at in range(count))
        object.__setattr__(self, "deployments", [(org, f"dep-{at:06}") for at, org in enumerate(orgs)])

    @property
    def orgs(self) -> list[str]:
        """All orgs."""
        return list(dict.fromkeys(org for org, _ in self.deployments))

    def each_replica(self) -> Iterator[tuple[str, str]]:
        """Yield (org, replica) of all replicas."""
        for org, deployment in self.deployments:
            for number in range(1, REPLICAS_PER_DEPLOYMENT + 1):
                yield org, f"{deployment}-r{number}"

    def commands(self) -> RecordsByPartition:
        """Return a `create_deployment` for each deployment."""
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

    def starts(self) -> RecordsByPartition:
        """Return a "healthy" callback for each replica."""
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

    def heartbeats(self, at_ms: int) -> RecordsByPartition:
        """Return a heartbeat of each replica, with the fields that an execlet typically sends: about 118 bytes.

        Obol reads only `org_id` and `replica_id`.
        """
        at = rfc3339(at_ms)
        return self._place(
            (
                org,
                f'{{"event_id":"{number:07}","at":"{at}","type":"up","org_id":"{org}","replica_id":"{replica}"}}',
            )
            for number, (org, replica) in enumerate(self.each_replica())
        )

    def requests(self, count: int) -> RecordsByPartition:
        """Return `count` inference requests, distributed over the deployments."""
        return self._place(
            (org, f'{{"org_id":"{org}","deployment_id":"{deployment}"}}')
            for org, deployment in (self.deployments[at % len(self.deployments)] for at in range(count))
        )

    def _place(self, records: Iterator[tuple[str, str]]) -> RecordsByPartition:
        by_partition: RecordsByPartition = defaultdict(list)
        for org, value in records:
            by_partition[partition_of(org, self.partitions)].append(KeyValue(org.encode(), value.encode()))
        return dict(by_partition)


def count(records: RecordsByPartition) -> int:
    """Return the number of records."""
    return sum(map(len, records.values()))


def prices() -> Sequence[KeyValue]:
    """Return the price of the fleet's profile."""
    return [KeyValue(PROFILE.encode(), f'{{"profile":"{PROFILE}","price":"300","currency":"JPY"}}'.encode())]
