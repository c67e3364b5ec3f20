"""What the commands of the benchmarks have in common."""

import logging
import signal
import sys
from pathlib import Path
from typing import Any, Final

import typer
from rich.console import Console

from bench import report

_PLAIN_COLUMNS: Final = 120


def prepare() -> dict[str, Any]:
    """Check the machine, warn if it is busy, and treat SIGTERM as Ctrl-C. Returns a description of the machine."""
    if not Path("/proc/self/stat").exists():
        raise typer.BadParameter("the benchmarks read CPU time and memory from /proc, and therefore require Linux")
    logging.getLogger("aiokafka").setLevel(logging.ERROR)  # it warns while a new topic has no leader yet
    # So that processes are stopped and topics are deleted.
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    about = report.machine()
    if about["load before"] > about["cores"] / 2:
        print(f"Warning: the machine is busy (load {about['load before']}); rates will be too low.", file=sys.stderr)
    return about


def console() -> Console:
    """Return the console of the report, wide enough if it is not a terminal."""
    out = Console()
    return out if out.is_terminal else Console(width=max(out.width, _PLAIN_COLUMNS))
