"""Scheduling: which shard applies records when, and the end offsets that the merge needs."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Final

from aiokafka.errors import KafkaError

from streams.engine.partitions import Partitions
from streams.engine.ports import Admin, Clock
from streams.engine.shard import Shard
from topics.catalogue import PRICES

SLICE_RECORDS: Final = 2_000
"""How many records a shard applies before the next shard does. A single record, such as a tick, may take long."""

MAX_BUSY_S: Final = 0.05
"""When a round over all shards takes longer, other tasks run after each shard, not only after the round."""

_RETRY_S: Final = 0.2

_STALL_STEP_S: Final = 0.25
"""How often stall timeouts are checked, and the most that one round counts towards them."""

log = logging.getLogger(__name__)


class EndOffsets:
    """Requests the end offsets of the active shards' inputs and of the prices: one request for all shards that wait.

    `asked`: the number of requests sent. `inputs` as in `Partitions`; `prices`: the full name of that topic.
    """

    def __init__(
        self,
        partitions: Partitions,
        admin: Admin,
        clock: Clock,
        *,
        inputs: Mapping[str, str],
        prices: str,
        work: asyncio.Event,
    ) -> None:
        self.asked = 0
        self._partitions = partitions
        self._admin = admin
        self._clock = clock
        self._inputs = inputs
        self._prices = prices
        self._work = work
        self._wanted = asyncio.Event()

    def request(self) -> None:
        """Have the end offsets requested; `work` is set when the shards have them."""
        self._wanted.set()

    async def run(self) -> None:
        """Send requests for ever. A failed one is retried."""
        while True:
            await self._clock.wait(self._wanted)
            self._wanted.clear()
            working, generation = self._partitions.working(), self._partitions.generation
            self.asked += 1
            asked = self.asked
            inputs = [(name, partition) for name in self._inputs for partition in working]
            try:
                ends = await self._admin.end_offsets([*inputs, (self._prices, 0)])
            except KafkaError as error:
                log.warning("the end offsets of the inputs can't be read (%r); retrying", error)
                await self._clock.sleep(_RETRY_S)
                self._wanted.set()
                continue
            if generation != self._partitions.generation:
                continue
            for partition in working:
                known = {topic: ends[name, partition] for name, topic in self._inputs.items()}
                known[PRICES.name] = ends[self._prices, 0]
                self._partitions.shards[partition].merge.set_ends(known, asked)
            self._work.set()


class Scheduler:
    """Has the shards apply their records one after another, whenever `work` is set. `records_applied` counts records.

    `commit_soon` is called with the partition of a shard that must commit before it applies more; `applied` with each
    shard after it has applied its records.
    """

    def __init__(
        self,
        partitions: Partitions,
        ends: EndOffsets,
        clock: Clock,
        *,
        work: asyncio.Event,
        commit_soon: Callable[[int], None],
        applied: Callable[[Shard], None],
    ) -> None:
        self.records_applied = 0
        self._partitions = partitions
        self._ends = ends
        self._clock = clock
        self._work = work
        self._commit_soon = commit_soon
        self._applied = applied
        self._stalled_s = 0.0

    async def run(self) -> None:
        """Apply records for ever. Raises `ShardError`."""
        last_s = self._clock.monotonic_s()
        while True:
            await self._clock.wait(self._work, _STALL_STEP_S if self._is_stalled() else None)
            self._work.clear()
            now_s = self._clock.monotonic_s()
            # A stall timeout does not run while this worker is busy: records can't arrive then.
            self._stalled_s += min(now_s - last_s, _STALL_STEP_S)
            last_s = now_s
            for partition in list(self._partitions.shards):
                # The assignment may change while other tasks run.
                shard = self._partitions.shards.get(partition)
                if shard is None:
                    continue
                self._advance(shard)
                if self._clock.monotonic_s() - now_s >= MAX_BUSY_S:
                    await self._clock.sleep(0)
            await self._clock.sleep(0)

    def _is_stalled(self) -> bool:
        waits = (shard.merge.wait for shard in self._partitions.shards.values())
        return any(wait is not None and wait.until_s is not None for wait in waits)

    def _advance(self, shard: Shard) -> None:
        """Have a shard apply its next records."""
        applied = shard.advance(self._stalled_s, SLICE_RECORDS)
        if applied:
            self.records_applied += applied
            self._work.set()
        if shard.is_full:
            self._commit_soon(shard.partition)
        if shard.merge.wait is not None and shard.merge.wait.is_for_end_offsets:
            self._ends.request()
        self._applied(shard)
