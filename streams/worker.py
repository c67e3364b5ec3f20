"""A Faust app that runs the engine: its start, rebalances and stop.

Partitions are fenced before Faust restores them, and committed before Faust releases them.
"""

import asyncio
import logging
import warnings
from typing import Any, Final

import faust
from aiokafka import TopicPartition
from aiokafka.errors import KafkaError
from faust.exceptions import AlreadyConfiguredWarning
from faust.types.tuples import TP
from yarl import URL

from streams.engine.clock import SystemClock
from streams.engine.engine import Engine
from streams.engine.fatal import Accident, AccidentError, end_process, end_with, exit_within, guarded
from streams.engine.kafka import AioKafka, FaustConsumer
from streams.engine.merge import Damage
from streams.engine.shard import INPUTS, Commit, Shard
from streams.engine.table import TABLES
from streams.engine.transport import BatchConsumer, BatchSchema, BatchTransport, InputTopic
from streams.metrics import Metrics
from streams.metrics.census import Censuses
from streams.readmodel import ReadModel
from streams.settings import SettingError, Settings
from streams.startup import prepare, set_up_log
from streams.web.mount import WebServer, follow, mount
from streams.web.summary import Summaries
from topics.catalogue import CLOCK, HEARTBEATS, TOPICS
from topics.provision import ProvisionError, UnreachableError

STOP_DEADLINE_S: Final = 20.0
"""How long a stop may take: usually a second or two, more during a rebalance or a large commit."""

GROUP_CHECK_S: Final = 1.0

log = logging.getLogger(__name__)


class App(faust.App):
    """Faust's app with the engine of one worker."""

    consumer: "WorkerConsumer"
    web: WebServer
    engine: Engine
    read_model: ReadModel | None = None

    def connect(self, settings: Settings) -> None:
        """Install our transport and web server, and create the engine."""
        self.transport = WorkerTransport(self.conf.broker, self)
        self.web = WebServer(self)
        self.engine = Engine(
            settings,
            owner=self.owner_url,
            consumer=FaustConsumer(self),
            kafka=AioKafka(settings.kafka_client_options()),
            clock=SystemClock(),
        )
        self.on_rebalance_complete.connect(_on_restored)

    def topic(self, *topics: str, **options: Any) -> Any:
        """Return a topic. Names of the contract get the namespace; an inbound topic is read in whole fetches."""
        names = [self.engine.settings.topic(name) if name in TOPICS else name for name in topics]
        if len(topics) == 1 and topics[0] in INPUTS:
            return InputTopic(self, topics=names, schema=BatchSchema(), acks=False)
        return super().topic(*names, **options)

    def owner_url(self, partition: int) -> str | None:
        """Return the URL of the worker that `partition` is assigned to, or None while it has no owner."""
        changelog = self.engine.changelog(TABLES[0])
        for url, topics in self.assignor.tables_metadata().items():
            if partition in topics.get(changelog, ()):
                return str(url).rstrip("/")
        return None

    async def on_first_start(self) -> None:
        """Check the settings, create missing topics, start the engine, which reads all prices, and mount the views."""
        set_up_log()
        try:
            self.engine.settings = settings = _with_flags(self, self.engine.settings)
            with warnings.catch_warnings():
                # Faust has read it for its banner, so it warns; all other code reads it when needed.
                warnings.simplefilter("ignore", AlreadyConfiguredWarning)
                self.conf.canonical_url = URL(settings.advertised_url)
            changelogs = [self.engine.changelog(table) for table in TABLES]
            await prepare(settings, self.conf.datadir, changelogs, web=self.conf.web_enabled)
        except (UnreachableError, KafkaError) as error:
            end_process(Accident.UNREACHABLE, str(error))
        except (SettingError, ProvisionError) as error:
            end_process(Accident.WRONG_SETTING, str(error))
        except AccidentError as error:
            end_with("the checks at start", error)
        await super().on_first_start()
        await guarded("the engine's start", self.engine.start())
        self.add_future(self._watch_group())
        self._mount_views(settings)

    async def _watch_group(self) -> None:
        """End the process after an error that keeps the consumer out of its group for good."""
        while not self.should_stop:
            await asyncio.sleep(GROUP_CHECK_S)
            try:
                self.consumer.check_group()
            except Exception as error:  # noqa: BLE001 - after any error, the worker is in no group
                msg = (
                    f"the consumer group {self.engine.settings.app_id} can't be joined: {error!r}; check the "
                    "permissions of the worker's user, and that no other program uses the name"
                )
                end_process(Accident.CLUSTER_ERROR, msg)

    def _mount_views(self, settings: Settings) -> None:
        """Add the views to the web server, which starts next. The read model and the metrics are updated at commits."""
        engine, censuses = self.engine, Censuses(self.engine)
        summaries = Summaries(engine, censuses)
        self.read_model = read_model = follow(engine, settings, summaries)
        metrics = Metrics(engine, censuses, None if read_model is None else read_model.age_s)
        if read_model is not None:
            read_model.on_malformed = metrics.redis_malformed.inc

        def committed(shard: Shard, commit: Commit, seconds: float) -> None:
            rows = sum(map(len, commit.rows.values()))
            messages = len(commit.outputs) + len(commit.charges)
            tick_ms = shard.position.times.get(CLOCK.name) if CLOCK.name in commit.offsets else None
            metrics.committed(shard, seconds=seconds, rows=rows, messages=messages, tick_ms=tick_ms)
            if read_model is not None:
                read_model.committed(shard, commit.rows)

        engine.on_committed.append(committed)
        if read_model is not None:
            read_model.start()
        if self.conf.web_enabled or read_model is not None:
            self.add_future(censuses.keep_counting())
        if self.conf.web_enabled:
            mount(self.web, engine, settings, summaries, scrape=metrics.scrape, read_model=read_model)

    async def stop(self) -> None:
        """Stop within `STOP_DEADLINE_S`, before a supervisor kills the process."""
        exit_within(STOP_DEADLINE_S, lambda: self.engine.has_committed_all)
        await super().stop()

    async def on_stop(self) -> None:
        """Commit what is applied before Faust leaves the group."""
        if self.started:
            self.consumer.stop_flow()
            await guarded("the last commits", self.engine.stop())
            self.consumer.has_released = True
        if self.read_model is not None:
            await self.read_model.stop()
        await super().on_stop()


class WorkerConsumer(BatchConsumer):
    """Calls the engine before Faust takes over partitions and before it releases them."""

    app: App

    async def on_partitions_assigned(self, assigned: set[TP], generation_id: int = 0) -> None:
        """Fence the partitions, then let Faust restore them."""
        if self.app.should_stop:
            return
        await guarded("taking over partitions", self._take_over(assigned, generation_id))
        await super().on_partitions_assigned(assigned, generation_id)

    async def _take_over(self, assigned: set[TP], generation: int) -> None:
        engine = self.app.engine
        partitions = _partitions(engine.settings, assigned)
        if partitions is None:
            # Topics were created again, or got more partitions.
            await engine.check_cluster()
            numbers = {topic: [tp.partition for tp in sorted(assigned) if tp.topic == topic] for topic in engine.inputs}
            msg = (
                f"the group assigned {numbers}: not the same of each input; wait until all topics have been made again"
            )
            raise AccidentError(Accident.NOT_CO_PARTITIONED, msg)
        await engine.on_assigned(partitions, generation)

    async def seek_to_committed(self) -> dict[TP, int]:
        """Return where the inputs are read from. The engine has sought there: to the offsets in the rows.

        Those of the group may be others, as an operator can set them.
        """
        return {TP(*partition): offset for partition, offset in self.app.engine.positions().items()}

    async def on_partitions_revoked(self, revoked: set[TP]) -> None:
        """Commit everything applied, then let Faust release the partitions."""
        # Faust stops the flow only when partitions are revoked. The next assignment's records must not reach a worker
        # that had no partition, either, before it is ready for them.
        self.stop_flow()
        self.app.flow_control.suspend()
        await guarded("the commit before partitions move", self.app.engine.on_revoked())
        # When the app is stopping, Faust would close its connections here, before the commit of `App.on_stop` is done.
        if not self.app.should_stop:
            await super().on_partitions_revoked(revoked)

    def is_contiguous(self, topic: str) -> bool:
        """Return whether a topic is an input. Inputs are not compacted; changelogs are."""
        return self.app.engine.is_input(topic)

    def on_damage(self, partition: TopicPartition, damage: Damage | None, generation: int) -> None:
        """Suspend a partition that can't be read."""
        self.app.engine.on_damage((partition.topic, partition.partition), damage, generation)

    async def on_task_error(self, exc: BaseException) -> None:
        """End the process after an exception in an agent: Faust would continue without the records of that fetch."""
        end_with("an agent failed", exc)


class WorkerTransport(BatchTransport):
    """The transport whose consumer calls the engine."""

    Consumer = WorkerConsumer


async def _on_restored(app: App, **_: Any) -> None:
    await guarded("starting work", app.engine.activate(app.consumer_generation_id))


def _partitions(settings: Settings, assigned: set[TP]) -> list[int] | None:
    """Return the partitions assigned of every input; None if the inputs are not co-partitioned."""
    by_topic = {topic: {tp.partition for tp in assigned if tp.topic == settings.topic(topic)} for topic in INPUTS}
    own = by_topic[HEARTBEATS.name]
    is_complete = all(partitions == own for partitions in by_topic.values())
    return sorted(own) if is_complete and all(number < settings.partitions for number in own) else None


def _with_flags(app: App, settings: Settings) -> Settings:
    """Return the settings with `--web-port` and `--web-bind`, which win. Raises `SettingError`."""
    if not app.conf.web_enabled:
        return settings
    return settings.with_web(app.conf.web_bind, app.conf.web_port)
