"""What the views read: this worker's shards, and the addresses of the other partition owners. The engine has it."""

from collections.abc import Sequence
from typing import Protocol

from streams.engine.position import Position
from streams.metrics.source import Shard as CountedShard
from streams.metrics.source import Source as CountedSource

__all__ = ["Shard", "Source"]


class Shard(CountedShard, Protocol):
    """One assigned partition, with its row of the table `positions`."""

    @property
    def position(self) -> Position:
        """Its offsets, times and counts."""


class Source(CountedSource, Protocol):
    """One worker: its shards, its prices, and the addresses of the other workers."""

    @property
    def partitions(self) -> int:
        """`OBOL_PARTITIONS`."""

    @property
    def own_url(self) -> str:
        """Where other workers reach this one (`OBOL_ADVERTISED_URL`)."""

    @property
    def currency(self) -> str:
        """`OBOL_CURRENCY`."""

    @property
    def prices_as_of(self) -> int | None:
        """The greatest time read from `croesus.prices`."""

    def shards(self) -> Sequence[Shard]:
        """List the assigned partitions, those that are still restoring too, in order of their numbers."""

    @property
    def is_assigned(self) -> bool:
        """Whether this worker has had an assignment since it started."""

    def owner_url(self, partition: int) -> str | None:
        """Return the address of the partition's owner, a current member of the group; None while it has none."""
