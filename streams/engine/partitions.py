"""The assigned partitions: fenced and restored when they are assigned, committed when they are revoked."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from streams.engine.changelogs import Changelogs
from streams.engine.commit import Commits
from streams.engine.fatal import Accident, AccidentError, end_process, end_with
from streams.engine.merge import Damage, Unreadable
from streams.engine.ports import Admin, Clock, Fetch, TopicPartition
from streams.engine.shard import Phase, Shard
from streams.engine.waits import Waits

NO_GENERATION: Final = -1
"""The generation between two assignments."""

RESTORE_TIMEOUT_S: Final = 60.0
"""When a restore makes no progress for this long, the process ends: a restart starts the restore again."""

_PROGRESS_S: Final = 1.0

log = logging.getLogger(__name__)


class Partitions:
    """The partitions assigned to this worker.

    `shards` by partition. `generation`: that of the current assignment, or `NO_GENERATION`; fetches of another one
    are discarded. `is_assigned`: whether there was an assignment yet, even of no partition. `inputs`: full
    names of the input topics, and their names without namespace.
    """

    def __init__(
        self,
        new_shard: Callable[[int], Shard],
        *,
        inputs: Mapping[str, str],
        commits: Commits,
        changelogs: Changelogs,
        admin: Admin,
        clock: Clock,
        waits: Waits,
    ) -> None:
        self.shards: dict[int, Shard] = {}
        self.generation = NO_GENERATION
        self.is_assigned = False
        self._new_shard = new_shard
        self._inputs = inputs
        self._commits = commits
        self._changelogs = changelogs
        self._admin = admin
        self._clock = clock
        self._waits = waits

    def working(self) -> list[int]:
        """Return the active partitions."""
        return [partition for partition, shard in self.shards.items() if shard.phase is Phase.WORKING]

    async def revoke(self) -> None:
        """Commit everything applied, and apply nothing until the next assignment."""
        self.generation = NO_GENERATION
        for shard in self.shards.values():
            shard.suspend()
        await self._commits.commit_all()

    async def assign(self, partitions: Iterable[int], generation: int) -> None:
        """Take over `partitions`, fencing the previous owner of each; those that stay keep their rows.

        Raises `KafkaError`.
        """
        assigned = sorted(set(partitions))
        # A partition whose commit was refused is restored again: its rows are not those of the changelogs.
        refused = {partition for partition, shard in self.shards.items() if shard.refusal is not None}
        for partition in (self.shards.keys() - set(assigned)) | refused:
            await self._commits.drop(partition)
            self._changelogs.drop(partition)
            del self.shards[partition]
        for partition in assigned:
            if partition not in self.shards:
                self.shards[partition] = self._new_shard(partition)
        await asyncio.gather(*(self._commits.fence(self.shards[partition]) for partition in assigned))
        # No other worker writes to the changelogs any more, so these end offsets are final.
        self._changelogs.expect(await self._admin.end_offsets(self._changelogs.of(assigned)))
        for partition in assigned:
            self.shards[partition].restore_total = self._changelogs.expected(partition)
        self.generation = generation
        self.is_assigned = True
        log.info("partitions %s are assigned to this worker, in generation %d", assigned, generation)

    def restore(self, changelog: TopicPartition, fetch: Fetch) -> None:
        """Restore a fetch of a changelog. Ends the process when records are missing or can't be read."""
        shard = self.shards.get(changelog[1])
        if shard is None or fetch.generation != self.generation:
            return
        known = self._changelogs.restored_to(changelog)
        if known >= 0 and fetch.start > known + 1:
            end_process(
                Accident.CHANGELOG_DAMAGED,
                f"{_named(changelog)}: read from offset {fetch.start}, but {known} was the last before",
            )
        table = self._changelogs.table(changelog[0])
        try:
            for record in fetch.records:
                if isinstance(record, Unreadable):
                    msg = f"{_named(changelog)} can't be restored: offset {record.offset}: {record.error}"
                    raise AccidentError(Accident.UNREADABLE_ROW, msg)  # noqa: TRY301 - ends the process below
            shard.restore(table, [(r.key or b"", r.value) for r in fetch.records if r.offset > known])
        except AccidentError as error:
            end_with(_named(changelog), error)
        except Exception as error:  # noqa: BLE001 - Faust would log it, and continue without the rows
            end_process(Accident.UNREADABLE_ROW, f"{_named(changelog)} can't be restored: {error!r}", error)
        self._changelogs.advance(changelog, fetch.end - 1)

    def on_damage(self, changelog: TopicPartition, damage: Damage | None) -> None:
        """End the process when a changelog that is being restored is damaged; wait when the damage may pass."""
        shard = self.shards.get(changelog[1])
        if damage is not None and shard is not None and shard.phase is Phase.RESTORING:
            where = f"{_named(changelog)} can't be read at offset {damage.offset}: {damage.reason}"
            if not damage.may_pass:
                end_process(Accident.CHANGELOG_DAMAGED, f"{where}; restore that replica, or elect another as leader")
            log.warning("%s; waiting", where)

    async def activate(self, generation: int) -> bool:
        """Start applying records in the restored partitions; returns whether that was possible.

        It is not when `generation` is no longer current, or changelogs are not restored to their ends. Raises
        `KafkaError`, and `AccidentError` when a row can't be read.
        """
        partitions = sorted(self.shards)
        if generation != self.generation:
            return False
        for changelog in self._changelogs.unrestored(partitions):
            log.warning("%s is not yet restored; waiting", _named(changelog))
            return False
        for partition in partitions:
            for _ in self.shards[partition].decode_rows():
                await self._clock.sleep(0)
        inputs = [(name, partition) for name in self._inputs for partition in partitions]
        beginnings = await self._admin.beginning_offsets(inputs) if inputs else {}
        if generation != self.generation:
            return False
        for partition in partitions:
            self.shards[partition].start({topic: beginnings[name, partition] for name, topic in self._inputs.items()})
        return True

    async def watch_restore(self) -> None:
        """Log the progress of restores every second; end the process when there is none for `RESTORE_TIMEOUT_S`."""
        read_before, done_before, still_s = 0, 0, 0.0
        while True:
            await self._clock.sleep(_PROGRESS_S)
            restoring = [shard for shard in self.shards.values() if not shard.ready]
            read = sum(shard.restored_rows for shard in restoring)
            done = read + sum(shard.decoded_rows for shard in restoring)
            if self._waits.is_answering():
                still_s = still_s + _PROGRESS_S if restoring and done == done_before else 0.0
            done_before = done
            if still_s >= RESTORE_TIMEOUT_S:
                stuck = [shard.partition for shard in restoring]
                end_process(
                    Accident.TIMED_OUT, f"partitions {stuck} are not restored, and nothing was read for {still_s:g} s"
                )
            if total := sum(shard.restore_total or 0 for shard in restoring):
                log.info(
                    "restoring %d partitions: %d of %d changelog offsets, %d/s",
                    *(len(restoring), read, total, max(0, read - read_before) / _PROGRESS_S),
                )
            read_before = read


def _named(partition: TopicPartition) -> str:
    return f"{partition[0]} partition {partition[1]}"
