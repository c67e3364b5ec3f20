"""Intake: queues fetches for the shards, with back-pressure, and reads missing records again."""

import asyncio
import logging
from collections.abc import Collection, Mapping
from typing import Final

from streams.engine.fatal import Accident, AccidentError, guarded
from streams.engine.merge import Damage, LostRecordsError
from streams.engine.partitions import Partitions
from streams.engine.ports import Consumer, Fetch, TopicPartition
from streams.engine.prices import PriceReader
from streams.engine.scheduling import EndOffsets
from streams.engine.shard import Phase, Shard
from topics.catalogue import PRICES

MAX_READ_AGAIN: Final = 5
"""How often missing records are read again from the same offset, before they count as deleted."""

log = logging.getLogger(__name__)


class Intake:
    """Fills the shards' queues. `work` is set when there may be records to apply; `inputs` as in `Partitions`."""

    def __init__(
        self,
        partitions: Partitions,
        ends: EndOffsets,
        consumer: Consumer,
        prices: PriceReader,
        *,
        inputs: Mapping[str, str],
        work: asyncio.Event,
    ) -> None:
        self._partitions = partitions
        self._ends = ends
        self._consumer = consumer
        self._prices = prices
        self._inputs = inputs
        self._work = work
        self._paused: set[TopicPartition] = set()
        self._seeking: dict[TopicPartition, asyncio.Task[None]] = {}
        self._read_again: dict[TopicPartition, tuple[int, int]] = {}

    def reset(self) -> None:
        """Forget which partitions are paused: after an assignment, the consumer fetches all of them."""
        self._paused.clear()

    async def start(self) -> None:
        """Seek the inputs of the active partitions to the offsets of their shards."""
        working = sorted(self._partitions.working())
        for partition in working:
            merge = self._partitions.shards[partition].merge
            merge.set_read(PRICES.name, self._prices.position)
            merge.block(PRICES.name, self._prices.damage)
        if working:
            await self._consumer.seek(self.positions())
        log.info("partitions %s are active", working)

    def positions(self) -> dict[TopicPartition, int]:
        """Return the offsets from which the inputs of the active partitions are to be read."""
        shards = self._partitions.shards
        return {
            (name, partition): shards[partition].merge.fetched(topic)
            for partition in self._partitions.working()
            for name, topic in self._inputs.items()
        }

    def feed(self, partition: TopicPartition, fetch: Fetch) -> None:
        """Queue a fetch of an input. One of an earlier generation is discarded; its records are read again.

        When records before it are missing, they are read again, too. Raises `AccidentError` after too many tries.
        """
        topic = self._inputs[partition[0]]
        shard = self._partitions.shards.get(partition[1])
        if shard is None or shard.phase is not Phase.WORKING or fetch.generation != self._partitions.generation:
            return
        try:
            shard.merge.feed(topic, fetch.records, fetch.start, fetch.end, self._ends.asked)
        except LostRecordsError as error:
            self._seek_back(partition, shard.merge.fetched(topic), error)
            return
        if shard.merge.is_full(topic):
            self._paused.add(partition)
            self._consumer.pause(partition)
        self._work.set()

    def resume(self, shard: Shard) -> None:
        """Resume the paused inputs of a shard whose queues have room."""
        for partition in [paused for paused in self._paused if paused[1] == shard.partition]:
            if shard.merge.has_room(self._inputs[partition[0]]):
                self._paused.discard(partition)
                self._consumer.resume(partition)

    def _seek_back(self, partition: TopicPartition, offset: int, error: LostRecordsError) -> None:
        """Read an input again from `offset`: during a rebalance, Faust may drop fetched records.

        Raises `AccidentError` after too many tries.
        """
        if partition in self._seeking:
            return
        before, times = self._read_again.get(partition, (offset, 0))
        times = times + 1 if before == offset else 1
        if times > MAX_READ_AGAIN:
            msg = f"{partition[0]} partition {partition[1]}: {error}; the records between were deleted (retention.ms?)"
            raise AccidentError(Accident.RECORDS_LOST, msg) from error
        self._read_again[partition] = offset, times
        log.warning("%s partition %d: %s; reading again from there", *partition, error)
        self._seeking[partition] = asyncio.create_task(guarded(f"seeking {partition}", self._seek(partition, offset)))

    async def _seek(self, partition: TopicPartition, offset: int) -> None:
        generation = self._partitions.generation
        try:
            await self._consumer.seek({partition: offset})
        except Exception:
            # After a rebalance the partition may be revoked, or Faust seeks itself.
            if generation == self._partitions.generation:
                raise
        finally:
            del self._seeking[partition]

    def on_damage(self, partition: TopicPartition, damage: Damage | None) -> None:
        """Block a shard at an offset of an input that can't be read, until it can be read."""
        shard = self._partitions.shards.get(partition[1])
        if shard is not None and shard.phase is Phase.WORKING:
            self._block([shard], self._inputs[partition[0]], partition, damage)

    def _block(self, shards: Collection[Shard], topic: str, partition: TopicPartition, damage: Damage | None) -> None:
        before = {shard.merge.damage(topic) for shard in shards}
        for shard in shards:
            shard.merge.block(topic, damage)
        if damage is None and before != {None}:
            log.warning("%s partition %d can be read again", *partition)
        elif damage is not None and before != {damage}:
            log.error(
                "%s partition %d can't be read at offset %d: %s; partition %s of Obol waits, the others go on; "
                "restore that replica, or elect another as leader; where no replica has it, delete the records "
                "before the next readable offset (kafka-delete-records), which loses them",
                *(*partition, damage.offset, damage.reason, ", ".join(str(shard.partition) for shard in shards)),
            )
        self._work.set()

    async def follow_prices(self) -> None:
        """Read prices for ever. Raises `KafkaError`."""
        while True:
            damage = self._prices.damage
            if await self._prices.read():
                for shard in self._partitions.shards.values():
                    shard.merge.set_read(PRICES.name, self._prices.position)
                self._work.set()
            if damage != self._prices.damage:
                shards = self._partitions.shards.values()
                self._block(shards, PRICES.name, (self._prices.topic, 0), self._prices.damage)
