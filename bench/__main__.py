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
    quick: Annotated[bool, typer.Option("--quick", help="20,000 replicas, under two minutes.")] = False,  # noqa: FBT002 - an option
    full: Annotated[bool, typer.Option("--full", help="A million replicas.")] = False,  # noqa: FBT002 - as above
    json: Annotated[Path | None, typer.Option(help="Also write the figures to this file.")] = None,
) -> None:
    """Benchmark Obol against a stock Faust agent and raw aiokafka, on the cluster of KAFKA_BOOTSTRAP_SERVERS."""
    if quick and full:
        raise typer.BadParameter("use --quick or --full, not both")
    if not Path("/proc/self/stat").exists():
        raise typer.BadParameter("the benchmarks read CPU time and memory from /proc, and therefore require Linux")
    sizes = QUICK if quick else FULL if full else DEFAULT
    logging.getLogger("aiokafka").setLevel(logging.ERROR)  # it warns while a new topic has no leader yet
    # Treat SIGTERM as Ctrl-C, so that processes are stopped and topics are deleted.
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    about = report.machine()
    show = Show()
    if about["load before"] > about["cores"] / 2:
        show.console.print(f"Warning: the machine is busy (load {about['load before']}); rates will be too low.")
    try:
        figures = asyncio.run(run(sizes, show))
    except (BenchError, KafkaError) as error:
        print(f"error: {error}", file=sys.stderr)
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
