"""Faust's tables over the rows of this worker's partitions: read here, written by the commits of the shards."""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NoReturn

import faust
from faust.types import TP, EventT

from streams.engine import position as positions
from streams.engine import rows
from streams.engine.transport import BatchSchema
from topics.partitioner import partition_of

if TYPE_CHECKING:
    from streams.engine.engine import Engine
    from streams.engine.shard import Shard

TABLES: Final = tuple(rows.DESCRIPTIONS)
"""All tables: one for each type of row, and the positions."""


class ReadOnlyTableError(TypeError):
    """A table was written to; the message names the program that writes it."""


class RowTable(faust.Table):
    """A read-only mapping from `<org_id>/<row_id>` to the fields of a row, over this worker's restored partitions.

    Keys are str; bytes are accepted. Values are copies. Faust reads the changelog in whole fetches, which the engine
    restores; the table stores nothing itself.
    """

    def __init__(self, app: faust.App, engine: "Engine", name: str, partitions: int) -> None:
        super().__init__(
            app,
            name=name,
            help=rows.DESCRIPTIONS[name],
            default=None,
            partitions=partitions,
            schema=BatchSchema(),
            key_type=bytes,
            value_type=bytes,
            # With 1, Faust would continue to read the changelog after recovery.
            recovery_buffer_size=2,
        )
        self.engine = engine

    # Reading

    def __getitem__(self, key: str | bytes) -> dict[str, Any]:
        text = _text(key)
        partition = self._partition_of(text)
        shard = self.engine.by_partition.get(partition)
        row = rows.row(shard, self.name, text) if shard is not None and shard.ready else None
        if row is None:
            raise KeyError(f"{text}: {self._why_absent(partition, shard)}")
        return row

    def __contains__(self, key: object) -> bool:
        try:
            return isinstance(key, str | bytes) and bool(self[key])
        except KeyError:
            return False

    def __iter__(self) -> Iterator[str]:
        for shard in self._ready():
            yield from rows.keys(shard, self.name)

    def __len__(self) -> int:
        return sum(rows.count(shard, self.name) for shard in self._ready())

    # Faust's methods read its store, which is empty.
    keys = Mapping.keys
    values = Mapping.values
    items = Mapping.items

    def copy(self) -> dict[str, Any]:
        """Return all rows as a dict."""
        return dict(self.items())

    def _ready(self) -> "list[Shard]":
        return [shard for shard in self.engine.shards() if shard.ready]

    def _partition_of(self, key: str) -> int:
        if self.name == positions.TABLE:
            return int(key) if key.isdecimal() else -1
        return partition_of(key.partition("/")[0], self.engine.settings.partitions)

    def _why_absent(self, partition: int, shard: "Shard | None") -> str:
        if shard is None:
            return f"partition {partition} is not assigned to this worker; /tables/{self.name}/ asks its owner"
        return "no such row" if shard.ready else f"partition {partition} is being restored"

    # Writing

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise ReadOnlyTableError(
            f"table {self.name} is read-only: the rules write its rows, in the transaction of each partition's commit; "
            "to change one, send a record to an inbound topic (faust -A streams.app send user.commands ...)"
        )

    __setitem__ = __delitem__ = pop = popitem = setdefault = update = raw_update = clear = _refuse

    # Restoring

    def persisted_offset(self, tp: TP) -> int:
        """Return the changelog offset that is in memory: a shard that stays assigned is not restored again."""
        return self.engine.restored_to(tp.topic, tp.partition)

    def apply_changelog_batch(self, batch: Iterable[EventT]) -> None:
        """Pass the fetches to the engine."""
        for event in batch:
            self.engine.restore(event.message)

    async def on_changelog_event(self, event: EventT) -> None:
        """Do nothing: events are applied in batches."""

    def clone(self, **kwargs: Any) -> Any:
        """Raise `NotImplementedError`: each table exists once."""
        raise NotImplementedError


def _text(key: str | bytes) -> str:
    return key.decode(errors="replace") if isinstance(key, bytes) else key
