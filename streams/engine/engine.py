"""The engine of one worker, composed of its parts. Faust reads inputs and changelogs, and calls the engine."""

import asyncio
import gc
import sys
from collections.abc import Callable, Collection, Coroutine
from typing import Any, Final

from streams.billing.prices import Prices
from streams.engine.changelogs import Changelogs
from streams.engine.cluster import ClusterWatch, installation, live_settings
from streams.engine.commit import COMMIT_DEADLINE_S, Commits, Committer
from streams.engine.fatal import guarded
from streams.engine.intake import Intake
from streams.engine.merge import Damage
from streams.engine.partitions import Partitions
from streams.engine.ports import Clock, Consumer, Kafka, TopicPartition
from streams.engine.position import Position
from streams.engine.prices import PriceReader
from streams.engine.scheduling import EndOffsets, Scheduler
from streams.engine.shard import INPUTS, Commit, Shard
from streams.engine.table import TABLES
from streams.engine.tasks import cancel_and_wait
from streams.engine.ticks import TickWriter
from streams.engine.waits import Wait, Waits
from streams.limits import DAY_MS, HOUR_MS
from streams.rules.context import Switches
from streams.settings import Settings
from topics.catalogue import CLOCK, PRICES

STALL_TIMEOUT_S: Final = {"wall": 2.0, "log": 60.0}
"""By `OBOL_CLOCK`: how long a merge waits for missing records before a topic's end offset."""

START_DEADLINE_S: Final = 600.0
TAKEOVER_DEADLINE_S: Final = 360.0
"""Longer than the transaction of a killed worker can stay open."""

JOIN_DEADLINE_S: Final = 360.0
"""A rebalance waits for other workers, which may be taking over partitions."""

SWITCH_INTERVAL_S: Final = 0.0005
"""The consumer has its own thread. At Python's default, 5 ms, each step of a commit would wait that long for it."""

GC_THRESHOLDS: Final = (50_000, 20, 100)
"""Rows are in no reference cycles, so the collector need not scan a million of them often."""


class Engine:
    """Runs between Kafka and the rules: shards, restore, scheduling and commits.

    `owner` returns the address of a partition's owner, or None. `on_committed`: callbacks run
    after each commit, with the shard, the commit and the seconds that it took. `has_committed_all`: the engine has
    stopped, and everything that it applied is committed. `inputs`: full names of the input topics, and their names
    without namespace.
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
        self.owner_url = owner
        self.has_committed_all = False
        self._tasks: list[asyncio.Task[None]] = []
        self._kafka = kafka
        self._clock = clock
        work = asyncio.Event()
        self.inputs = inputs = {settings.topic(topic): topic for topic in INPUTS}
        prices = settings.topic(PRICES.name)
        self._admin = kafka.admin(f"{settings.app_id}-ends")
        self._prices = PriceReader(kafka.reader((prices, 0)), self._admin, clock, settings.currency, prices)
        self._changelogs = Changelogs(settings.app_id, TABLES)
        self._waits = Waits(clock, lambda: self._watch.is_answering)
        self._joining: Wait | None = None
        self._commits = Commits(
            self._new_committer,
            changelogs=self._changelogs,
            admin=self._admin,
            clock=clock,
            waits=self._waits,
            interval_s=settings.commit_interval_ms / 1_000,
        )
        self.on_committed: list[Callable[[Shard, Commit, float], None]] = self._commits.after_commit
        self.on_committed.append(lambda *_: work.set())
        self._partitions = Partitions(
            self._new_shard,
            inputs=inputs,
            commits=self._commits,
            changelogs=self._changelogs,
            admin=self._admin,
            clock=clock,
            waits=self._waits,
        )
        self._watch = ClusterWatch(
            settings,
            self._partitions,
            inputs={**inputs, prices: PRICES.name},
            changelogs=self._changelogs,
            prices_read=lambda: self._prices.position,
            admin=self._admin,
            clock=clock,
        )
        self._ends = EndOffsets(self._partitions, self._admin, clock, inputs=inputs, prices=prices, work=work)
        self._intake = Intake(self._partitions, self._ends, consumer, self._prices, inputs=inputs, work=work)
        self._scheduler = Scheduler(
            self._partitions,
            self._ends,
            clock,
            work=work,
            commit_soon=self._commits.commit_soon,
            applied=self._after_applying,
        )
        self._ticks = TickWriter(kafka.producer(), clock, settings.topic(CLOCK.name), self._partitions.working)

    def _after_applying(self, shard: Shard) -> None:
        self._intake.resume(shard)
        self._commits.commit_later(shard)

    def _new_shard(self, partition: int) -> Shard:
        shard = Shard(
            partition,
            partitions=self.settings.partitions,
            prices=self.prices,
            switches=self.switches,
            retention_ms=self.settings.retention_h * HOUR_MS,
            id_retention_ms=self.settings.id_retention_d * DAY_MS,
            stall_timeout_s=STALL_TIMEOUT_S[self.settings.clock],
        )
        shard.stamp = self._stamp
        return shard

    def _stamp(self, position: Position) -> None:
        """Add the values to a position that later checks compare with the cluster."""
        position.installation = installation(self.settings)
        position.settings = live_settings(self.settings)
        position.topics = position.topics | self._watch.topic_ids
        position.prices = self._prices.position
        position.worker = self.own_url

    def _new_committer(self, partition: int) -> Committer:
        return Committer(
            partition,
            kafka=self._kafka,
            clock=self._clock,
            app_id=self.settings.app_id,
            topic=self.settings.topic,
            changelog=self.changelog,
        )

    # What views and metrics read

    @property
    def by_partition(self) -> dict[int, Shard]:
        """The shards of the assigned partitions."""
        return self._partitions.shards

    def shards(self) -> list[Shard]:
        """Return the shards of the assigned partitions in order, including those that are restoring."""
        return [shard for _, shard in sorted(self.by_partition.items())]

    @property
    def is_assigned(self) -> bool:
        """Whether there was an assignment since the start, even of no partition."""
        return self._partitions.is_assigned

    @property
    def records_applied(self) -> int:
        """How many records were applied since this worker started."""
        return self._scheduler.records_applied

    @property
    def prices(self) -> Prices:
        """All prices read."""
        return self._prices.prices

    @property
    def prices_as_of(self) -> int | None:
        """The greatest timestamp read from `croesus.prices`, in ms; None before any."""
        return self._prices.as_of

    @property
    def prices_refused(self) -> int:
        """How many bad records of `croesus.prices` were ignored."""
        return self._prices.refused

    @property
    def disagreements(self) -> list[str]:
        """Settings that are not the same on other workers, one line each."""
        return self._watch.disagreements

    @property
    def open_transactions(self) -> list[str]:
        """Open transactions of other programs that block inputs, one line each."""
        return self._watch.transactions.lines

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
        """Where other workers reach this one (`OBOL_ADVERTISED_URL`)."""
        return self.settings.advertised_url

    # Start and stop

    async def start(self) -> None:
        """Connect, compare the cluster with what was committed, read all prices, and start the background tasks.

        Raises `AccidentError` and `KafkaError`.
        """
        sys.setswitchinterval(SWITCH_INTERVAL_S)
        gc.set_threshold(*GC_THRESHOLDS)
        await self._admin.start()
        self._spawn("watching waits", self._waits.watch())
        with self._waits.on("the comparison of the cluster with what was committed", START_DEADLINE_S):
            await self._watch.check_start()
        self._spawn("watching the cluster", self._watch.run())
        with self._waits.on("the prices", START_DEADLINE_S):
            await self._prices.start()
        self._join()
        self._spawn("applying records", self._scheduler.run())
        self._spawn("asking for end offsets", self._ends.run())
        self._spawn("reading prices", self._intake.follow_prices())
        self._spawn("restoring", self._partitions.watch_restore())
        if self.settings.clock == "wall":
            await self._ticks.start()
            self._spawn("writing ticks", self._ticks.run())

    async def stop(self) -> None:
        """Commit everything applied, and disconnect."""
        await self.on_revoked()
        self._waits.end(self._joining)
        self.has_committed_all = True
        await cancel_and_wait(self._tasks)
        await self._commits.stop()
        await self._ticks.stop()
        await self._prices.stop()
        await self._admin.stop()

    def _spawn(self, what: str, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.append(asyncio.create_task(guarded(what, work)))

    # What Faust calls

    async def on_revoked(self) -> None:
        """Commit everything applied, and apply nothing until the next assignment."""
        with self._waits.on("the commits before partitions move", COMMIT_DEADLINE_S):
            await self._partitions.revoke()
        self._join()

    def _join(self) -> None:
        self._waits.end(self._joining)
        self._joining = self._waits.begin("an assignment of partitions from the consumer group", JOIN_DEADLINE_S)

    async def check_cluster(self) -> None:
        """Compare the cluster with what was applied. Raises `AccidentError` and `KafkaError`."""
        await self._watch.check()

    async def on_assigned(self, partitions: Collection[int], generation: int) -> None:
        """Take over `partitions`, fencing the previous owner of each; those that stay keep their rows."""
        self._waits.end(self._joining)
        with self._waits.on(f"the takeover of partitions {sorted(partitions)}", TAKEOVER_DEADLINE_S):
            await self._partitions.assign(partitions, generation)
        self._intake.reset()
        # The collector would scan all restored rows again and again, and find no garbage.
        gc.disable()

    async def activate(self, generation: int) -> None:
        """Start applying records, if `generation` is current and the changelogs are restored to their ends."""
        if await self._partitions.activate(generation):
            await self._intake.start()
            # Restored rows stay in memory; the collector need not scan them again.
            gc.freeze()
            gc.enable()

    def positions(self) -> dict[TopicPartition, int]:
        """Return the offsets from which the inputs of the active partitions are to be read."""
        return self._intake.positions()

    def is_input(self, topic: str) -> bool:
        """Return whether a topic, given by its full name, is an input of the shards."""
        return topic in self.inputs

    def on_damage(self, partition: TopicPartition, damage: Damage | None, generation: int) -> None:
        """Suspend a partition that can't be read; `damage` None: it can be read again."""
        if generation == self._partitions.generation:
            (self._intake if self.is_input(partition[0]) else self._partitions).on_damage(partition, damage)

    def feed(self, message: Any) -> None:
        """Queue a fetch of an input. Raises `AccidentError` when records are missing for good."""
        self._intake.feed((message.topic, message.partition), message.value)

    def restore(self, message: Any) -> None:
        """Restore a fetch of a changelog. Ends the process when records are missing or can't be read."""
        self._partitions.restore((message.topic, message.partition), message.value)

    def restored_to(self, changelog: str, partition: int) -> int:
        """Return the last offset of a changelog that is in memory; -1 when none is."""
        return self._changelogs.restored_to((changelog, partition))

    def changelog(self, table: str) -> str:
        """Return the full name of a table's changelog, which is Faust's name for it."""
        return self._changelogs.name(table)
