"""The Faust app: its settings, its tables, and the module with its agents.

Start a worker with `faust -A streams.app worker`. Faust's own flags work; `--web-port` and `--web-bind` win over the
settings in the environment, which are read when this module is imported.
"""

from typing import Any, Final

from faust.auth import SASLCredentials, SSLCredentials
from yarl import URL

from streams.engine.table import TABLES, RowTable
from streams.settings import KafkaSecurity, Settings
from streams.web.mount import WEB_APPLICATION_OPTIONS
from streams.worker import App

MAX_POLL_RECORDS: Final = 5_000

SESSION_TIMEOUT_S: Final = 6.0
"""After this long without a group heartbeat of a worker, its partitions are assigned to other workers."""


def make_app(settings: Settings) -> App:
    """Return the app of one worker."""
    app = App(
        settings.app_id,
        autodiscover=["streams.agents", "streams.commands"],
        broker=[URL(f"kafka://{server}") for server in settings.bootstrap_servers],
        broker_credentials=_credentials(settings.security),
        broker_session_timeout=SESSION_TIMEOUT_S,
        broker_heartbeat_interval=1.0,
        broker_max_poll_records=MAX_POLL_RECORDS,
        consumer_auto_offset_reset="earliest",
        datadir=settings.data_dir,
        # The environment wins over these arguments, and BROKER_URL or WEB_PORT may be meant for something else.
        env_prefix="FAUST_",
        # It counts fetches; how many records are queued is the engine's decision.
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
        web_application_options=WEB_APPLICATION_OPTIONS,
        canonical_url=settings.advertised_url,
    )
    app.connect(settings)
    for table in TABLES:
        app.tables.add(RowTable(app, app.engine, table, settings.partitions))
    return app


def _credentials(security: KafkaSecurity) -> Any:
    if security.sasl_password is not None:
        return SASLCredentials(
            username=security.sasl_username,
            password=security.sasl_password.get_secret_value(),
            ssl_context=security.ssl_context,
            mechanism=security.sasl_mechanism,
        )
    return SSLCredentials(security.ssl_context) if security.ssl_context is not None else None


app = make_app(Settings.load_or_exit())
