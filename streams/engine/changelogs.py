"""Up to which offset the changelogs of this worker's partitions are in memory."""

from collections.abc import Iterable, Mapping, Sized

from streams.engine.ports import TopicPartition
from topics.catalogue import min_in_sync
from topics.provision import NewTopicSpec, ProvisionSettings


def new_changelog(name: str, settings: ProvisionSettings) -> NewTopicSpec:
    """Return the topic to create for a changelog, by its full name: its rows are as durable as the outputs."""
    config = {
        "cleanup.policy": "compact",
        # A restore reads records that are not compacted yet. The active segment never is, so segments are small.
        "segment.bytes": str(16 * 1024 * 1024),
        "segment.ms": str(600_000),
        "min.cleanable.dirty.ratio": "0.1",
        "max.compaction.lag.ms": str(3_600_000),
        "message.timestamp.type": "CreateTime",
        "min.insync.replicas": str(min_in_sync(settings.replication)),
    }
    return NewTopicSpec(
        name=name,
        partitions=settings.partitions,
        replication=settings.replication,
        config=config,
        fixed={"cleanup.policy": "the contract"},
    )


class Changelogs:
    """The changelogs of an installation's `tables`, named as Faust names them.

    Restores and commits both advance the offset up to which a changelog is in memory.
    """

    def __init__(self, app_id: str, tables: Iterable[str]) -> None:
        self._tables = {f"{app_id}-{table}-changelog": table for table in tables}
        self._names = {table: name for name, table in self._tables.items()}
        self._restored_to: dict[TopicPartition, int] = {}
        self._ends: Mapping[TopicPartition, int] = {}

    def name(self, table: str) -> str:
        """Return the full name of a table's changelog."""
        return self._names[table]

    def names(self) -> list[str]:
        """Return the full names of all changelogs."""
        return list(self._tables)

    def __contains__(self, table: object) -> bool:
        """Whether a table has a changelog here."""
        return table in self._names

    def table(self, name: str) -> str:
        """Return the table of a changelog, given by its full name."""
        return self._tables[name]

    def of(self, partitions: Iterable[int]) -> list[TopicPartition]:
        """Return the changelogs of partitions."""
        return [(name, partition) for partition in partitions for name in self._tables]

    def expect(self, ends: Mapping[TopicPartition, int]) -> None:
        """Set the end offsets up to which changelogs are to be restored."""
        self._ends = ends

    def expected(self, partition: int) -> int:
        """Return the sum of the end offsets of a partition's changelogs."""
        return sum(self._ends[changelog] for changelog in self.of([partition]))

    def unrestored(self, partitions: Iterable[int]) -> list[TopicPartition]:
        """Return the changelogs that are not yet restored up to their end offsets."""
        return [
            changelog for changelog in self.of(partitions) if self.restored_to(changelog) < self._ends[changelog] - 1
        ]

    def ends(self, partition: int) -> dict[str, int]:
        """Return the end offset of a restored partition's changelogs, by table. Only its own commits write to them."""
        return {table: self.restored_to((name, partition)) + 1 for name, table in self._tables.items()}

    def restored_to(self, changelog: TopicPartition) -> int:
        """Return the last offset of a changelog that is in memory; -1 when none is."""
        return self._restored_to.get(changelog, -1)

    def advance(self, changelog: TopicPartition, offset: int) -> None:
        """Record that a changelog is in memory up to `offset`: it was restored, or written."""
        self._restored_to[changelog] = max(offset, self.restored_to(changelog))

    def drop(self, partition: int) -> None:
        """Record that the rows of a partition are no longer in memory."""
        for changelog in self.of([partition]):
            self._restored_to.pop(changelog, None)


def ends_after(ends: Mapping[str, int], rows: Mapping[str, Sized]) -> dict[str, int]:
    """Return the changelogs' end offsets after a transaction that writes `rows`. The commit marker takes an offset."""
    return {table: end + (len(rows[table]) + 1 if rows.get(table) else 0) for table, end in ends.items()}
