"""What all commands use: settings, consoles, a progress line, and the event loop."""

import asyncio
import os
import time
from collections.abc import Coroutine
from typing import Any, TypeVar

from aiokafka.errors import KafkaConnectionError, KafkaError
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from streams.cli.failure import Failure, describe_kafka_error
from streams.cli.interrupt import run_until_interrupted
from streams.settings import Settings
from topics.login import why_refused

Result = TypeVar("Result")


def settings() -> Settings:
    """Return the settings, from the same environment variables as a worker's. Raises `SettingError`."""
    return Settings.from_env(os.environ)


def now_ms() -> int:
    """Return the wall-clock time in ms since 1970."""
    return time.time_ns() // 1_000_000


def out() -> Console:
    """Return a console for results, on the current `sys.stdout`."""
    return Console(highlight=False, soft_wrap=True, emoji=False, markup=False)


def notes() -> Console:
    """Return a console for progress and notes, on stderr."""
    return Console(stderr=True, highlight=False, soft_wrap=True, emoji=False, markup=False)


def progress(*, counted: bool) -> Progress:
    """Return a progress line on stderr. It is removed at the end, and disabled where stderr is not a terminal."""
    console = notes()
    bar = (BarColumn(), MofNCompleteColumn()) if counted else ()
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        *bar,
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )


def run(work: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine that uses Kafka. Raises `Failure` for its Kafka errors."""
    try:
        return run_until_interrupted(work)
    except KafkaError as error:
        refusal = None
        if isinstance(error, KafkaConnectionError):
            refusal = asyncio.run(why_refused(settings().kafka_client_options()))
        message = describe_kafka_error(error, settings().bootstrap_servers) if refusal is None else refusal.message
        raise Failure(message) from error
