"""A table whose rows are the shards': Faust reads its changelog, the engine takes the rows and writes them."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

import faust
from faust.types import TP, EventT

from streams.engine import position as positions
from streams.engine.rowcodec import TYPES
from streams.engine.transport import BatchSchema
from topics.catalogue import min_in_sync

if TYPE_CHECKING:
    from streams.engine.engine import Engine

TABLES: Final = (*TYPES, positions.TABLE)
"""Every table: one for each type of row, and the positions."""


def changelog_config(replication: int) -> dict[str, str]:
    """Kafka's settings for a changelog with so many copies: rows are stored as safely as what is sent beside them."""
    return {
        "cleanup.policy": "compact",
        # Restoring reads what is not yet compacted, so that is kept small; the last segment never is.
        "segment.bytes": str(16 * 1024 * 1024),
        "segment.ms": str(600_000),
        "min.cleanable.dirty.ratio": "0.1",
        "max.compaction.lag.ms": str(3_600_000),
        "message.timestamp.type": "CreateTime",
        "min.insync.replicas": str(min_in_sync(replication)),
    }


class RowTable(faust.Table):
    """One table of one installation. It holds nothing itself.

    Changelog events are whole fetches; two of them at most are held back before they are applied.
    """

    def __init__(self, app: faust.App, engine: "Engine", name: str, partitions: int) -> None:
        super().__init__(
            app,
            name=name,
            default=None,
            partitions=partitions,
            schema=BatchSchema(),
            key_type=bytes,
            value_type=bytes,
            # With 1, Faust would go on reading the changelog after recovery.
            recovery_buffer_size=2,
        )
        self.engine = engine

    def persisted_offset(self, tp: TP) -> int:
        """Up to which offset of the changelog the rows are here: those of a shard that stays are not read again."""
        return self.engine.restored_to(tp.topic, tp.partition)

    def apply_changelog_batch(self, batch: Iterable[EventT]) -> None:
        """Hand rows to their shards."""
        for event in batch:
            self.engine.restore(event.message)

    async def on_changelog_event(self, event: EventT) -> None:
        """Nothing to do for an event on its own."""

    def clone(self, **kwargs: Any) -> Any:
        """Refuse: there is one of each table."""
        raise NotImplementedError
