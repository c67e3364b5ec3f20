"""How far the changelogs of this worker's partitions are in memory."""

from collections.abc import Iterable, Mapping, Sized

from streams.engine.ports import TopicPartition


class Changelogs:
    """The changelogs of an installation's `tables`, named as Faust names them.

    Restores and commits both report how far the rows in memory are those of a changelog; this alone keeps it.
    """

    def __init__(self, app_id: str, tables: Iterable[str]) -> None:
        self._tables = {f"{app_id}-{table}-changelog": table for table in tables}
        self._names = {table: name for name, table in self._tables.items()}
        self._restored_to: dict[TopicPartition, int] = {}
        self._ends: Mapping[TopicPartition, int] = {}

    def name(self, table: str) -> str:
        """Give the full name of a table's changelog."""
        return self._names[table]

    def names(self) -> list[str]:
        """List the full names of all changelogs."""
        return list(self._tables)

    def __contains__(self, table: object) -> bool:
        """Whether a table has a changelog here."""
        return table in self._names

    def table(self, name: str) -> str:
        """Give the table whose changelog has this full name."""
        return self._tables[name]

    def of(self, partitions: Iterable[int]) -> list[TopicPartition]:
        """List the changelogs of partitions."""
        return [(name, partition) for partition in partitions for name in self._tables]

    def expect(self, ends: Mapping[TopicPartition, int]) -> None:
        """Take the end offsets up to which changelogs are to be restored."""
        self._ends = ends

    def expected(self, partition: int) -> int:
        """Give the sum of the end offsets of a partition's changelogs."""
        return sum(self._ends[changelog] for changelog in self.of([partition]))

    def unrestored(self, partitions: Iterable[int]) -> list[TopicPartition]:
        """List the changelogs that are not yet restored up to their end offsets."""
        return [
            changelog for changelog in self.of(partitions) if self.restored_to(changelog) < self._ends[changelog] - 1
        ]

    def ends(self, partition: int) -> dict[str, int]:
        """Give by table where the changelogs of a restored partition end: only its own commits write there."""
        return {table: self.restored_to((name, partition)) + 1 for name, table in self._tables.items()}

    def restored_to(self, changelog: TopicPartition) -> int:
        """Give the last offset of a changelog that is in memory; -1 when none is."""
        return self._restored_to.get(changelog, -1)

    def advance(self, changelog: TopicPartition, offset: int) -> None:
        """Note that the rows in memory are those of a changelog up to `offset`: it was restored, or written."""
        self._restored_to[changelog] = max(offset, self.restored_to(changelog))

    def drop(self, partition: int) -> None:
        """Note that the rows of a partition are no longer in memory."""
        for changelog in self.of([partition]):
            self._restored_to.pop(changelog, None)


def ends_after(ends: Mapping[str, int], rows: Mapping[str, Sized]) -> dict[str, int]:
    """Give by table where the changelogs end after a transaction that writes `rows`; its marker takes an offset."""
    return {table: end + (len(rows[table]) + 1 if rows.get(table) else 0) for table, end in ends.items()}
