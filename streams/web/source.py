"""The interface of a worker that the views read: its shards, and the addresses of the other partition owners."""

from collections.abc import Sequence
from typing import Protocol

from streams.engine.position import Position
from streams.metrics.source import ShardView
from streams.metrics.source import Source as CountedSource

__all__ = ["ShardWithPosition", "Source"]


class ShardWithPosition(ShardView, Protocol):
    """One assigned partition, with its row of the table `positions`."""

    @property
    def position(self) -> Position:
        """The offsets, times and counts."""


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

    def shards(self) -> Sequence[ShardWithPosition]:
        """Return the assigned partitions in order of their numbers, including those that are restoring."""

    @property
    def is_assigned(self) -> bool:
        """Whether this worker has had an assignment since it started."""

    def owner_url(self, partition: int) -> str | None:
        """Return the address of the partition's owner, a current member of the group; None while it has none."""
