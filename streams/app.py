"""The worker: Faust's app, its topics, agents and tables, wired to the engine and the views. No logic of its own.

Start it with `faust -A streams.app worker`. Faust's own flags work; `--web-port` and `--web-bind` win over settings.
"""

import logging
import os
import socket
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import faust
from aiokafka.admin import AIOKafkaAdminClient
from faust.auth import SASLCredentials, SSLCredentials
from faust.exceptions import AlreadyConfiguredWarning
from faust.types.tuples import TP
from yarl import URL

from streams.engine.clock import SystemClock
from streams.engine.engine import Engine
from streams.engine.fatal import end_process, guarded, leave_within
from streams.engine.kafka import AioKafka, FaustConsumer
from streams.engine.shard import INPUTS, Commit, Shard
from streams.engine.table import TABLES, RowTable, changelog_config
from streams.engine.transport import BatchSchema, BatchTransport, InputTopic
from streams.metrics import Metrics
from streams.metrics.census import Censuses
from streams.readmodel import ReadModel
from streams.settings import EXIT_WRONG_SETTING, KafkaSecurity, SettingError, Settings
from streams.web.mount import WebServer, follow, mount
from streams.web.summary import Summaries
from topics.catalogue import CLOCK, HEARTBEATS
from topics.provision import NewTopicSpec, ProvisionError, ensure_topics, provision

MAX_POLL_RECORDS: Final = 5_000

SESSION_TIMEOUT_S: Final = 6.0
"""After this long without a sign of life, a worker's partitions go to others."""

STOP_DEADLINE_S: Final = 20.0
"""How long a stop may take: mostly a second or two, more in the middle of a rebalance or of a large commit."""

log = logging.getLogger(__name__)


class App(faust.App):
    """Faust's app, which has the engine fence partitions before they are restored, and commit before they are lost."""

    engine: Engine
    read_model: ReadModel | None = None

    async def on_first_start(self) -> None:
        """Settle the addresses, make what topics are missing, and start the engine, which reads all prices."""
        _speak_up()
        try:
            settings = _with_flags(self, self.engine.settings)
            self.engine.settings = settings
            with warnings.catch_warnings():
                # It was read before, for the banner; who else needs it asks anew each time.
                warnings.simplefilter("ignore", AlreadyConfiguredWarning)
                self.conf.canonical_url = URL(settings.advertised_url)
            if self.conf.web_enabled:
                _check_port(settings)
            _make_data_dir(self.conf.datadir)
            if settings.billing_dry_run and not settings.billing_enabled:
                log.warning(
                    "DEDICATED_BILLING_DRY_RUN does nothing without DEDICATED_BILLING_ENABLED, and no dedicated "
                    "window is billed; set DEDICATED_BILLING_ENABLED=1 as well for a dry run (B21)"
                )
            await provision(settings)
            await _provision_changelogs(settings, self.engine.changelog)
        except (SettingError, ProvisionError) as error:
            end_process(str(error), EXIT_WRONG_SETTING)
        await super().on_first_start()
        await guarded("the engine's start", self.engine.start())
        self._open_views(settings)

    def _new_web(self) -> WebServer:
        return WebServer(self)

    def _open_views(self, settings: Settings) -> None:
        """Put the views on the web server, which starts next; the read model and the metrics follow commits."""
        engine, censuses = self.engine, Censuses(self.engine)
        summaries = Summaries(engine, censuses)
        self.read_model = read_model = follow(engine, settings, summaries)
        metrics = Metrics(engine, censuses, None if read_model is None else read_model.age_s)

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

    async def _on_partitions_assigned(self, assigned: set[TP], generation_id: int = 0) -> None:
        if not self.should_stop:
            await guarded("taking over partitions", self.engine.on_assigned(_partitions(self, assigned), generation_id))
            await super()._on_partitions_assigned(assigned, generation_id)

    async def _on_partitions_revoked(self, revoked: set[TP]) -> None:
        if self.should_stop:
            # The last commits come before others may have the partitions; Faust would drop its connections here.
            await guarded("the last commits", self.engine.on_revoked())
        else:
            # Faust stops the flow only where there is something to revoke; what the next assignment brings must not
            # reach a worker that had no partition before it is ready for it, either.
            self.consumer.stop_flow()
            self.flow_control.suspend()
            await super()._on_partitions_revoked(revoked)

    async def stop(self) -> None:
        """Stop, and be gone in time for whoever waits to kill the process."""
        leave_within(STOP_DEADLINE_S, lambda: self.engine.has_committed_all)
        await super().stop()

    async def _stop_consumer(self) -> None:
        if self._consumer is not None:
            self._consumer.stop_flow()
        await guarded("the last commits", self.engine.stop())
        if self._consumer is not None:
            self._consumer.has_let_go = True
        if self.read_model is not None:
            await self.read_model.stop()
        await super()._stop_consumer()


def make_app(settings: Settings) -> App:
    """Wire a worker of the installation that `settings` describe."""
    app = App(
        settings.app_id,
        broker=[URL(f"kafka://{server}") for server in settings.bootstrap_servers],
        broker_credentials=_credentials(settings.security),
        broker_session_timeout=SESSION_TIMEOUT_S,
        broker_heartbeat_interval=1.0,
        broker_max_poll_records=MAX_POLL_RECORDS,
        consumer_auto_offset_reset="earliest",
        datadir=settings.data_dir,
        # Batches, not records: what is held back is the shard's to say.
        stream_buffer_maxsize=16,
        stream_wait_empty=False,
        table_standby_replicas=0,
        topic_allow_declare=False,
        topic_disable_leader=True,
        topic_partitions=settings.partitions,
        topic_replication_factor=settings.replication,
        web_bind=settings.http_host,
        web_host=settings.http_host,
        web_port=settings.http_port,
        web_tables_enabled=False,
        canonical_url=settings.advertised_url,
    )
    app.transport = BatchTransport(app.conf.broker, app)
    names = {settings.topic(topic): topic for topic in INPUTS}

    def owner_url(partition: int) -> str | None:
        changelog = app.engine.changelog(TABLES[0])
        for url, topics in app.assignor.tables_metadata().items():
            if partition in topics.get(changelog, ()):
                return str(url).rstrip("/")
        return None

    app.engine = Engine(
        settings,
        owner=owner_url,
        consumer=FaustConsumer(app),
        kafka=AioKafka(settings.kafka_client_options()),
        clock=SystemClock(),
    )
    for table in TABLES:
        app.tables.add(RowTable(app, app.engine, table, settings.partitions))
    for name, topic in names.items():
        _add_agent(app, name, topic)
    app.on_partitions_revoked.connect(_on_revoked)
    app.on_rebalance_complete.connect(_on_restored)
    return app


def _add_agent(app: App, name: str, topic: str) -> None:
    channel = InputTopic(app, topics=[name], schema=BatchSchema(), acks=False)

    async def agent(stream: Any) -> None:
        async for event in stream.noack().events():
            try:
                app.engine.feed(event.message)
            except Exception as error:  # noqa: BLE001 - Faust would skip what was read
                end_process(f"{event.message.tp}: {error!r}", error=error)

    app.agent(channel, name=f"streams.app.{topic}", concurrency=1)(agent)


async def _on_revoked(app: App, revoked: set[TP], **_: Any) -> None:
    del revoked
    await guarded("the commit before partitions move", app.engine.on_revoked())


async def _on_restored(app: App, **_: Any) -> None:
    await guarded("starting work", app.engine.activate(app.consumer_generation_id))


def _check_port(settings: Settings) -> None:
    """Raise `SettingError` where the views' address is not to be had, before anything else is started."""
    family = socket.AF_INET6 if ":" in settings.http_host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((settings.http_host, settings.http_port))
        except OSError as error:
            problem = f"is {settings.http_port}, which can't be had on {settings.http_host} ({error.strerror})"
            mend = "choose another, or end what listens there (another worker?)"
            raise SettingError("OBOL_HTTP_PORT", problem, mend) from error


def _make_data_dir(folder: Path) -> None:
    """Make the worker's folder and those above it; Faust makes the last one only. Raises `SettingError`."""
    mend = "name a folder that this worker may write to"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        problem = f"is {str(folder)!r}, which can't be made ({error.strerror})"
        raise SettingError("OBOL_DATA_DIR", problem, mend) from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise SettingError("OBOL_DATA_DIR", f"is {str(folder)!r}, which this user can't write to", mend)


def _speak_up() -> None:
    """Have our own lines of level info in the log where Faust, by default, shows warnings: progress, dry-run (B21)."""
    logging.getLogger("streams").setLevel(logging.INFO)
    for handler in logging.root.handlers:
        if handler.level == logging.WARNING:
            handler.setLevel(logging.INFO)
            handler.addFilter(_is_ours_or_warns)


def _is_ours_or_warns(record: logging.LogRecord) -> bool:
    return record.levelno >= logging.WARNING or record.name.startswith("streams.")


def _partitions(app: App, assigned: set[TP]) -> list[int]:
    """The partitions that are ours: of every input, or the work can't be done."""
    settings = app.engine.settings
    by_topic = {topic: {tp.partition for tp in assigned if tp.topic == settings.topic(topic)} for topic in INPUTS}
    mine = by_topic[HEARTBEATS.name]
    if any(partitions != mine for partitions in by_topic.values()):
        end_process(f"the inputs' partitions were torn apart: {by_topic}; have all the same number of partitions")
    return sorted(mine)


async def _provision_changelogs(settings: Settings, changelog: Callable[[str], str]) -> None:
    admin = AIOKafkaAdminClient(**settings.kafka_client_options())
    await admin.start()
    try:
        await ensure_topics(
            admin,
            [
                NewTopicSpec(
                    name=changelog(table),
                    partitions=settings.partitions,
                    replication=settings.replication,
                    config=changelog_config(settings.replication),
                )
                for table in TABLES
            ],
        )
    finally:
        await admin.close()


def _with_flags(app: App, settings: Settings) -> Settings:
    """Let `--web-port` and `--web-bind` win. Raises `SettingError`."""
    if not app.conf.web_enabled:
        return settings
    return settings.with_web(app.conf.web_bind, app.conf.web_port)


def _credentials(security: KafkaSecurity) -> Any:
    if security.protocol.startswith("SASL_"):
        return SASLCredentials(
            username=security.sasl_username,
            password=security.sasl_password,
            ssl_context=security.ssl_context,
            mechanism=security.sasl_mechanism,
        )
    return SSLCredentials(security.ssl_context) if security.ssl_context is not None else None


app = make_app(Settings.load_or_exit())
