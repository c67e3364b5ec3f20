"""The engine of one worker: its shards, and what carries records to them and commits from them.

Faust says which partitions are this worker's, reads changelogs and inputs, and calls in here; see `app.py`.
"""

import asyncio
import gc
import logging
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

from aiokafka.errors import KafkaError

from streams.billing.prices import Prices
from streams.engine.commit import Committer
from streams.engine.fatal import EXIT_FENCED, end_process, guarded
from streams.engine.merge import LostRecordsError
from streams.engine.ports import Clock, Consumer, FencedError, Kafka
from streams.engine.prices import PriceReader
from streams.engine.shard import INPUTS, Commit, Phase, Shard
from streams.engine.table import TABLES
from streams.engine.tasks import cancel_and_wait
from streams.engine.ticks import TickWriter
from streams.limits import HOUR_MS
from streams.rules.context import Switches
from streams.settings import Settings
from topics.catalogue import CLOCK, PRICES, without_namespace

if TYPE_CHECKING:
    from streams.engine.transport import Fetch

STALL_TIMEOUT_S: Final = {"wall": 2.0, "log": 60.0}
"""By `OBOL_CLOCK`: how long records that are before a topic's end offset and do not arrive are waited for."""

SLICE_RECORDS: Final = 2_000
"""How many records a shard applies before others have their turn."""

MAX_COMMITS_AT_ONCE: Final = 4
"""A commit is held in memory as it is written; so many are at most."""

SWITCH_INTERVAL_S: Final = 0.0005
"""Reading takes a thread of its own; at Python's default, 5 ms, a commit would wait for it at every step."""

GC_THRESHOLDS: Final = (50_000, 20, 100)
"""Rows make no cycles, so looking through a million of them for cycles is rarely worth it."""

STUCK_S: Final = 60.0
"""A restore of which nothing is read for so long is begun anew, by a restart."""

MAX_READ_AGAIN: Final = 5
"""How often what is missing from an input is asked for again; then the log no longer has it."""

NO_GENERATION: Final = -1
"""While partitions are between two assignments."""

_STALL_STEP_S: Final = 0.25
_PROGRESS_S: Final = 1.0
_RETRY_S: Final = 0.2
_LEVELS: Final = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}

log = logging.getLogger(__name__)


class Engine:
    """Everything a worker does between Kafka and the rules.

    `by_partition` are this worker's shards; `is_assigned` says whether it was ever told which they are,
    `has_committed_all` that it has stopped and nothing is left to commit. `owner` gives the address of the worker that
    a partition is assigned to; `seek` has inputs read from given offsets; `pause` and `resume` say whether more of a
    partition shall be read.
    Whoever is in `on_committed` is told of each commit and of the seconds it took.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        owner: Callable[[int], str | None],
        consumer: Consumer,
        kafka: Kafka,
        clock: Clock,
    ) -> None:
        self.settings = settings
        self.switches = Switches(settings.billing_enabled, settings.billing_dry_run)
        self.by_partition: dict[int, Shard] = {}
        self.owner_url = owner
        self._kafka = kafka
        self._clock = clock
        self._tables = {self.changelog(table): table for table in TABLES}
        self._consumer = consumer
        self._committers: dict[int, Committer] = {}
        self._commit_loops: dict[int, asyncio.Task[None]] = {}
        self._urgent: dict[int, asyncio.Event] = {}
        self._commit_locks: dict[int, asyncio.Lock] = {}
        self._restored_to: dict[tuple[str, int], int] = {}
        self._changelog_ends: dict[tuple[str, int], int] = {}
        self._paused: set[tuple[str, int]] = set()
        self._seeking: dict[tuple[str, int], asyncio.Task[None]] = {}
        self._read_again: dict[tuple[str, int], tuple[int, int]] = {}
        self._generation = NO_GENERATION
        self._admin = kafka.admin(f"{settings.app_id}-ends")
        self.price_reader = PriceReader(kafka.reader((settings.topic(PRICES.name), 0)), clock, settings.currency)
        self._ticks = TickWriter(kafka.producer(), clock, settings.topic(CLOCK.name), self._working)
        self._tasks: list[asyncio.Task[None]] = []
        self._commits_at_once = asyncio.Semaphore(MAX_COMMITS_AT_ONCE)
        self._work = asyncio.Event()
        self._question = asyncio.Event()
        self._asked = 0
        self._waited_s = 0.0
        self.records_applied = 0
        self.is_assigned = False
        self.has_committed_all = False
        self.on_committed: list[Callable[[Shard, Commit, float], None]] = []

    # What views and metrics read

    def shards(self) -> list[Shard]:
        """List the assigned partitions, those that are still restoring too, in order of their numbers."""
        return [self.by_partition[partition] for partition in sorted(self.by_partition)]

    @property
    def prices(self) -> Prices:
        """Every price ever heard."""
        return self.price_reader.prices

    @property
    def prices_as_of(self) -> int | None:
        """The greatest time read from `croesus.prices`, in ms."""
        return self.price_reader.as_of

    @property
    def prices_refused(self) -> int:
        """How many bad records of `croesus.prices` were ignored."""
        return self.price_reader.refused

    @property
    def partitions(self) -> int:
        """`OBOL_PARTITIONS`."""
        return self.settings.partitions

    @property
    def currency(self) -> str:
        """`OBOL_CURRENCY`."""
        return self.settings.currency

    @property
    def own_url(self) -> str:
        """Where other workers reach this one."""
        return self.settings.advertised_url

    # Start and stop

    async def start(self) -> None:
        """Connect, read all prices, and be ready for partitions."""
        sys.setswitchinterval(SWITCH_INTERVAL_S)
        gc.set_threshold(*GC_THRESHOLDS)
        await self._admin.start()
        await self.price_reader.start()
        self._spawn("the pump", self._pump())
        self._spawn("asking for end offsets", self._ask())
        self._spawn("reading prices", self._keep_prices())
        self._spawn("telling of progress", self._tell_progress())
        if self.settings.clock == "wall":
            await self._ticks.start()
            self._spawn("the clock", self._ticks.run())

    async def stop(self) -> None:
        """Commit what is applied, and let go of everything."""
        await self.on_revoked()
        self.has_committed_all = True
        await cancel_and_wait((*self._tasks, *self._commit_loops.values()))
        self._commit_loops.clear()
        await asyncio.gather(*(committer.stop() for committer in self._committers.values()))
        await self._ticks.stop()
        await self.price_reader.stop()
        await self._admin.stop()

    def _spawn(self, what: str, work: Any) -> None:
        self._tasks.append(asyncio.create_task(guarded(what, work)))

    def _working(self) -> list[int]:
        return [partition for partition, shard in self.by_partition.items() if shard.phase is Phase.WORKING]

    # Partitions come and go

    async def on_revoked(self) -> None:
        """Commit what is applied, and apply no more until partitions are assigned anew."""
        # What was read or asked for before is of no more use.
        self._generation = NO_GENERATION
        for shard in self.by_partition.values():
            shard.suspend()
        await asyncio.gather(*(self._commit(partition) for partition in self.by_partition))

    async def on_assigned(self, partitions: Iterable[int], generation: int) -> None:
        """Take over `partitions`, each locked against its former owner; those that stay keep their rows."""
        mine = set(partitions)
        for partition in set(self.by_partition) - mine:
            await self._drop(partition)
        for partition in mine - set(self.by_partition):
            self._add(partition)
        await asyncio.gather(*(self._committers[partition].fence() for partition in mine))
        self._changelog_ends = await self._admin.end_offsets(
            [(topic, partition) for topic in self._tables for partition in mine]
        )
        for partition in mine:
            self.by_partition[partition].restore_total = sum(
                self._changelog_ends[topic, partition] for topic in self._tables
            )
        self._paused.clear()
        # Until all rows are here, collecting garbage would go through more and more of them, to find none.
        gc.disable()
        self._generation = generation
        self.is_assigned = True
        log.info("partitions %s are this worker's, in generation %d", sorted(mine), generation)

    def _add(self, partition: int) -> None:
        settings = self.settings
        self.by_partition[partition] = Shard(
            partition,
            partitions=settings.partitions,
            prices=self.prices,
            switches=self.switches,
            retention_ms=settings.retention_h * HOUR_MS,
            stall_timeout_s=STALL_TIMEOUT_S[settings.clock],
        )
        self._committers[partition] = Committer(
            partition,
            app_id=settings.app_id,
            kafka=self._kafka,
            clock=self._clock,
            topic=settings.topic,
            changelog=self.changelog,
        )
        self._urgent[partition], self._commit_locks[partition] = asyncio.Event(), asyncio.Lock()
        self._commit_loops[partition] = asyncio.create_task(
            guarded(f"committing partition {partition}", self._commit_forever(partition))
        )

    async def _drop(self, partition: int) -> None:
        await cancel_and_wait([self._commit_loops.pop(partition)])
        await self._committers.pop(partition).stop()
        del self.by_partition[partition]
        for topic in self._tables:
            self._restored_to.pop((topic, partition), None)

    async def activate(self, generation: int) -> None:
        """The changelogs are read: work. Only where this is still the latest assignment, and they really are."""
        partitions = sorted(self.by_partition)
        if generation != self._generation:
            return
        for partition in partitions:
            for topic in self._tables:
                if self.restored_to(topic, partition) < self._changelog_ends[topic, partition] - 1:
                    log.warning("%s partition %d is not yet restored; waiting on", topic, partition)
                    return
        for shard in self.shards():
            for _ in shard.unpack():
                await self._clock.sleep(0)
        names = {self.settings.topic(topic): topic for topic in INPUTS}
        asked = [(name, partition) for name in names for partition in partitions]
        beginnings = await self._admin.beginning_offsets(asked) if asked else {}
        if generation != self._generation:
            return
        positions: dict[tuple[str, int], int] = {}
        for partition in partitions:
            shard = self.by_partition[partition]
            shard.start({topic: beginnings[name, partition] for name, topic in names.items()})
            shard.merge.reach(PRICES.name, self.price_reader.position)
            positions |= {(name, partition): shard.merge.fetched(topic) for name, topic in names.items()}
        # Faust seeks only where something was committed; elsewhere, what a rebalance cut short would be skipped.
        if positions:
            await self._consumer.seek(positions)
        # What was restored stays: collecting garbage need not look at it again and again.
        gc.freeze()
        gc.enable()
        log.info("partitions %s are at work", partitions)

    # Rows

    def changelog(self, table: str) -> str:
        """Give the full name of a table's changelog, which is Faust's name for it."""
        return f"{self.settings.app_id}-{table}-changelog"

    def restored_to(self, changelog: str, partition: int) -> int:
        """Up to which offset of a changelog the rows are in memory; -1: none."""
        return self._restored_to.get((changelog, partition), -1)

    def restore(self, message: Any) -> None:
        """Take what was read of a changelog. What is missing, or can't be read, ends the process."""
        shard = self.by_partition.get(message.partition)
        if shard is None or message.generation_id != self._generation:
            return
        fetch: Fetch = message.value
        table = self._tables[message.topic]
        known = self.restored_to(message.topic, message.partition)
        if known >= 0 and fetch.start > known + 1:
            end_process(f"{message.topic} partition {message.partition}: read from {fetch.start}, but {known} was last")
        try:
            for record in fetch.records:
                if record.offset > known:
                    shard.restore(table, record.key or b"", record.value)
        except Exception as error:  # noqa: BLE001 - Faust would log it and go on without the rows
            end_process(f"{message.topic} partition {message.partition} can't be restored: {error!r}", error=error)
        self._restored_to[message.topic, message.partition] = max(known, fetch.end - 1)

    async def _tell_progress(self) -> None:
        read_before, done_before, still_s = 0, 0, 0.0
        while True:
            await self._clock.sleep(_PROGRESS_S)
            restoring = [shard for shard in self.by_partition.values() if not shard.ready]
            read = sum(shard.restored_rows for shard in restoring)
            done = read + sum(shard.unpacked_rows for shard in restoring)
            still_s = still_s + _PROGRESS_S if restoring and done == done_before else 0.0
            done_before = done
            if still_s >= STUCK_S:
                partitions = [shard.partition for shard in restoring]
                end_process(f"partitions {partitions} are not restored, and nothing was read for {still_s:g} s")
            if total := sum(shard.restore_total or 0 for shard in restoring):
                log.info(
                    "restoring %d partitions: %d of %d changelog offsets, %d/s",
                    *(len(restoring), read, total, max(0, read - read_before) / _PROGRESS_S),
                )
            read_before = read

    # Records in

    def feed(self, message: Any) -> None:
        """Queue what was read of an input. What a rebalance has overtaken is left out: it is read again."""
        shard = self.by_partition.get(message.partition)
        if shard is None or shard.phase is not Phase.WORKING or message.generation_id != self._generation:
            return
        fetch: Fetch = message.value
        topic = without_namespace(message.topic, self.settings.namespace)
        try:
            shard.merge.feed(topic, fetch.records, fetch.start, fetch.end, self._asked)
        except LostRecordsError as error:
            self._seek_back((message.topic, message.partition), shard.merge.fetched(topic), error)
            return
        if shard.merge.is_full(topic):
            self._paused.add((topic, message.partition))
            self._consumer.pause((message.topic, message.partition))
        self._work.set()

    def _seek_back(self, place: tuple[str, int], at: int, error: LostRecordsError) -> None:
        """Have an input read again from `at`: around a rebalance, what was fetched may get lost on its way here.

        Raises `error` when that was tried often enough.
        """
        if place in self._seeking:
            return
        before, times = self._read_again.get(place, (at, 0))
        times = times + 1 if before == at else 1
        if times > MAX_READ_AGAIN:
            raise error
        self._read_again[place] = at, times
        log.warning("%s partition %d: %s; reading from there again", *place, error)
        self._seeking[place] = asyncio.create_task(guarded(f"seeking {place}", self._seek_to(place, at)))

    async def _seek_to(self, place: tuple[str, int], at: int) -> None:
        generation = self._generation
        try:
            await self._consumer.seek({place: at})
        except Exception:
            # A rebalance has taken the partition away meanwhile, or seeks by itself.
            if generation == self._generation:
                raise
        finally:
            del self._seeking[place]

    async def _pump(self) -> None:
        """Apply whatever may be applied, a slice of each shard in turn."""
        last_s = self._clock.monotonic_s()
        while True:
            await self._clock.wait(self._work, _STALL_STEP_S if self._wakes_at() else None)
            self._work.clear()
            now_s = self._clock.monotonic_s()
            # The time that this worker itself was busy does not count.
            self._waited_s += min(now_s - last_s, _STALL_STEP_S)
            last_s = now_s
            for partition, shard in list(self.by_partition.items()):
                self._advance(partition, shard)
            await self._clock.sleep(0)

    def _wakes_at(self) -> bool:
        return any(shard.merge.wait and shard.merge.wait.until_s for shard in self.by_partition.values())

    def _advance(self, partition: int, shard: Shard) -> None:
        applied = shard.advance(self._waited_s, SLICE_RECORDS)
        self.records_applied += applied
        if applied:
            self._work.set()
        if shard.is_full:
            self._urgent[partition].set()
        if shard.merge.wait is not None and shard.merge.wait.is_for_end_offsets:
            self._question.set()
        for topic, of in [paused for paused in self._paused if paused[1] == partition]:
            if shard.merge.has_room(topic):
                self._paused.discard((topic, of))
                self._consumer.resume((self.settings.topic(topic), of))

    async def _ask(self) -> None:
        """Ask where the inputs of all shards, and the prices, end: one question serves all that was read before it."""
        names = {self.settings.topic(topic): topic for topic in INPUTS}
        prices = self.settings.topic(PRICES.name)
        while True:
            await self._question.wait()
            self._question.clear()
            partitions = self._working()
            asked = [(name, partition) for name in names for partition in partitions]
            self._asked += 1
            number, generation = self._asked, self._generation
            try:
                ends = await self._admin.end_offsets([*asked, (prices, 0)])
            except KafkaError as error:
                log.warning("where the inputs end can't be asked (%r); asking again", error)
                await self._clock.sleep(_RETRY_S)
                self._question.set()
                continue
            if generation != self._generation:
                continue
            for partition in partitions:
                known = {topic: ends[name, partition] for name, topic in names.items()}
                self.by_partition[partition].merge.know_ends({PRICES.name: ends[prices, 0], **known}, number)
            self._work.set()

    async def _keep_prices(self) -> None:
        while True:
            if await self.price_reader.read():
                for shard in self.by_partition.values():
                    shard.merge.reach(PRICES.name, self.price_reader.position)
                self._work.set()

    # Commits out

    async def _commit_forever(self, partition: int) -> None:
        interval_s = self.settings.commit_interval_ms / 1_000
        urgent = self._urgent[partition]
        while True:
            await self._clock.wait(urgent, interval_s)
            urgent.clear()
            await self._commit(partition)

    async def _commit(self, partition: int) -> None:
        """Commit what a shard has applied. A commit that fails ends the process: a restart is the recovery."""
        shard, committer = self.by_partition[partition], self._committers[partition]
        async with self._commit_locks[partition], self._commits_at_once:
            commit = shard.drain()
            if commit is None:
                return
            started_s = self._clock.monotonic_s()
            try:
                for table, offset in (await committer.commit(commit)).items():
                    self._restored_to[self.changelog(table), partition] = offset
            except FencedError as error:
                end_process(f"partition {partition} was taken over by another worker", EXIT_FENCED, error)
            except Exception as error:  # noqa: BLE001 - whatever it is, the transaction did not happen
                end_process(f"partition {partition} can't be committed: {error!r}", error=error)
        for tell in self.on_committed:
            tell(shard, commit, self._clock.monotonic_s() - started_s)
        for note in commit.notes:
            words = ", ".join(f"{name}={value}" for name, value in note.fields.items())
            log.log(_LEVELS.get(note.level, logging.INFO), "%s: %s", note.event, words)
        self._work.set()
