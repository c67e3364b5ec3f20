"""`python -m bench`."""

import asyncio
import logging
import signal
import sys
from pathlib import Path
from typing import Annotated

import typer
from aiokafka.errors import KafkaError
from rich.console import Console

from bench import report
from bench.child import BenchError
from bench.run import run
from bench.show import Show
from bench.sizes import DEFAULT, FULL, QUICK

_PLAIN_COLUMNS = 120


def main(
    quick: Annotated[bool, typer.Option("--quick", help="20,000 replicas, under two minutes.")] = False,  # noqa: FBT002 - typer's way to write an option
    full: Annotated[bool, typer.Option("--full", help="A million replicas.")] = False,  # noqa: FBT002 - as above
    json: Annotated[Path | None, typer.Option(help="Write the figures to this file, too.")] = None,
) -> None:
    """Measure Obol beside a stock Faust agent and raw aiokafka, on the cluster of KAFKA_BOOTSTRAP_SERVERS."""
    if quick and full:
        raise typer.BadParameter("choose --quick or --full, not both")
    if not Path("/proc/self/stat").exists():
        raise typer.BadParameter("CPU time and memory are read from /proc, so this needs Linux")
    sizes = QUICK if quick else FULL if full else DEFAULT
    logging.getLogger("aiokafka").setLevel(logging.ERROR)  # that a fresh topic is asked for again is no news
    # Asked to end, it ends as by Ctrl-C: what it started is stopped, and its topics are deleted.
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    about = report.machine()
    show = Show()
    if about["load before"] > about["cores"] / 2:
        show.console.print(f"Other work keeps this machine busy (load {about['load before']}): rates will be too low.")
    try:
        figures = asyncio.run(run(sizes, show))
    except (BenchError, KafkaError) as error:
        print(f"the bench stopped: {error}", file=sys.stderr)
        raise typer.Exit(1) from error
    except KeyboardInterrupt as interrupted:
        raise typer.Exit(130) from interrupted
    console = Console()
    if not console.is_terminal:
        console = Console(width=max(console.width, _PLAIN_COLUMNS))
    title = (
        f"{sizes.name}: {sizes.replicas:,} running replicas, {sizes.heartbeats:,} heartbeats; "
        f"{about['cores']} cores ({about['cpu']}), load {about['load before']} before, Python {about['python']}"
    )
    console.print(report.table(figures, title))
    if json is not None:
        json.write_text(report.to_json(figures, sizes, about), encoding="utf-8")


if __name__ == "__main__":
    typer.run(main)
