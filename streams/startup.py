"""What is checked and created before a worker starts: the port, the data directory, the topics."""

import logging
import os
import socket
from collections.abc import Iterable, Sequence
from pathlib import Path

from aiokafka.admin import AIOKafkaAdminClient
from msgspec.structs import replace

from streams.engine.changelogs import new_changelog
from streams.engine.cluster import check_installation, installation, other_partitions
from streams.engine.fatal import Accident, AccidentError
from streams.engine.shard import INPUTS
from streams.repeats import Repeats
from streams.settings import SettingError, Settings
from topics.catalogue import TOPICS
from topics.provision import connected, ensure_topics, new_topic

log = logging.getLogger(__name__)


async def prepare(settings: Settings, data_dir: Path, changelogs: Sequence[str], *, web: bool) -> None:
    """Check what the worker needs from its machine, then create missing topics and check the existing ones.

    `web`: the web views are on, so their port must be free. Raises `SettingError`, `ProvisionError`, or `AccidentError`
    where the rows are kept under another number of partitions.
    """
    if web:
        check_port(settings)
    make_data_dir(data_dir)
    if settings.billing_dry_run and not settings.billing_enabled:
        log.warning(
            "DEDICATED_BILLING_DRY_RUN does nothing without DEDICATED_BILLING_ENABLED, and no dedicated "
            "window is billed; set DEDICATED_BILLING_ENABLED=1 as well for a dry run (B21)"
        )
    async with connected(settings) as admin:
        await _check_partitions(admin, settings, changelogs)
        await ensure_topics(
            admin,
            [
                *(new_topic(spec, settings) for spec in TOPICS.values()),
                *(new_changelog(changelog, settings) for changelog in changelogs),
            ],
        )


def check_port(settings: Settings) -> None:
    """Raise `SettingError` when the address of the web views can't be bound."""
    family = socket.AF_INET6 if ":" in settings.http_host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((settings.http_host, settings.http_port))
        except OSError as error:
            problem = f"is {settings.http_port}, which can't be had on {settings.http_host} ({error.strerror})"
            fix = "choose another, or end what listens there (another worker?)"
            raise SettingError("OBOL_HTTP_PORT", problem, fix) from error


def make_data_dir(folder: Path) -> None:
    """Create the worker's folder with its parents; Faust creates only the last one. Raises `SettingError`."""
    fix = "name a folder that this worker may write to"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        problem = f"is {str(folder)!r}, which can't be made ({error.strerror})"
        raise SettingError("OBOL_DATA_DIR", problem, fix) from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise SettingError("OBOL_DATA_DIR", f"is {str(folder)!r}, which this user can't write to", fix)


def set_up_log() -> None:
    """Log info lines of `streams` where only warnings are logged, and repeated lines of clients once in a while."""
    logging.getLogger("streams").setLevel(logging.INFO)
    for handler in logging.root.handlers:
        handler.addFilter(Repeats())
        if handler.level == logging.WARNING:
            handler.setLevel(logging.INFO)
            handler.addFilter(_is_own_or_warning)


def _is_own_or_warning(record: logging.LogRecord) -> bool:
    return record.levelno >= logging.WARNING or record.name.startswith("streams.")


async def _check_partitions(admin: AIOKafkaAdminClient, settings: Settings, changelogs: Iterable[str]) -> None:
    """Raise `AccidentError` where changelogs exist, and they or a topic have another number of partitions."""
    found = {topic["topic"]: len(topic["partitions"]) for topic in await admin.describe_topics()}
    kept = next((found[changelog] for changelog in changelogs if changelog in found), None)
    if kept is None:
        return
    own = installation(settings)
    check_installation(0, replace(own, partitions=kept), own)
    for name in (settings.topic(topic) for topic in INPUTS):
        if found.get(name, kept) != kept:
            raise AccidentError(Accident.PARTITIONS_CHANGED, other_partitions(name, found[name], kept))
    for name in (settings.topic(spec.name) for spec in TOPICS.values() if spec.direction == "out"):
        if found.get(name, kept) != kept:
            msg = (
                f"{name} has {found[name]} partitions, but the rows are kept under {kept}; once its consumers have "
                f"read it, create it again with {kept} partitions"
            )
            raise AccidentError(Accident.PARTITIONS_CHANGED, msg)
