"""What every command starts from: the settings, a console, a clock, and a loop whose failures are words."""

import asyncio
import os
import time
from collections.abc import Coroutine
from typing import Any, TypeVar

from aiokafka.errors import KafkaConnectionError, KafkaError
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from streams.cli.failure import Failure, told_of_kafka
from streams.cli.interrupt import run_until_interrupted
from streams.settings import Settings
from topics.login import why_refused

Result = TypeVar("Result")


def settings() -> Settings:
    """The installation's settings, from the same variables as a worker's. Raises `SettingError`."""
    return Settings.from_env(os.environ)


def now_ms() -> int:
    """The wall clock."""
    return time.time_ns() // 1_000_000


def out() -> Console:
    """Where answers go. Made anew for each command, since it looks at the stdout of the moment."""
    return Console(highlight=False, soft_wrap=True, emoji=False, markup=False)


def notes() -> Console:
    """Where progress and remarks go: stderr, so that stdout stays for answers."""
    return Console(stderr=True, highlight=False, soft_wrap=True, emoji=False, markup=False)


def progress(*, counted: bool) -> Progress:
    """A line on stderr for what takes long; gone when it is over, and nothing where stderr is no terminal."""
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
    """Carry out what talks to Kafka; its errors come out as `Failure`."""
    try:
        return run_until_interrupted(work)
    except KafkaError as error:
        refusal = None
        if isinstance(error, KafkaConnectionError):
            refusal = asyncio.run(why_refused(settings().kafka_client_options()))
        words = told_of_kafka(error, settings().bootstrap_servers) if refusal is None else refusal.message
        raise Failure(words) from error
