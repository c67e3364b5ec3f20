"""`python -m bench`."""

import asyncio
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from aiokafka.errors import KafkaError

from bench import report
from bench.child import BenchError
from bench.cli import console, prepare
from bench.growth import measure as measure_growth
from bench.peer import missing
from bench.run import against_streams, all_parts, run
from bench.show import Show
from bench.sizes import DEFAULT, FULL, QUICK


class PeerName(StrEnum):
    """A program to compare with."""

    STREAMS = "streams"


def main(
    quick: Annotated[bool, typer.Option("--quick", help="20,000 replicas, under two minutes.")] = False,  # noqa: FBT002 - an option
    full: Annotated[bool, typer.Option("--full", help="A million replicas.")] = False,  # noqa: FBT002 - as above
    peer: Annotated[PeerName | None, typer.Option(help="Compare only with this program, alternately.")] = None,
    growth: Annotated[bool, typer.Option("--growth", help="Several sizes, org sizes, and numbers of workers.")] = False,  # noqa: FBT002 - as above
    json: Annotated[Path | None, typer.Option(help="Also write the figures to this file.")] = None,
) -> None:
    """Benchmark Obol against a stock Faust agent and raw aiokafka, on the cluster of KAFKA_BOOTSTRAP_SERVERS."""
    if quick and full:
        raise typer.BadParameter("use --quick or --full, not both")
    if growth and (full or peer):
        raise typer.BadParameter("use --growth alone, or with --quick")
    if peer and (absent := missing()):
        print(f"skipped: the Kafka Streams program can't be built: {absent}")
        return
    sizes = QUICK if quick else FULL if full else DEFAULT
    about = prepare()
    measure = against_streams if peer else all_parts
    try:
        figures = asyncio.run(measure_growth(sizes, Show()) if growth else run(sizes, Show(), measure))
    except (BenchError, KafkaError) as error:
        print(f"error: {error}", file=sys.stderr)
        raise typer.Exit(1) from error
    except KeyboardInterrupt as interrupted:
        raise typer.Exit(130) from interrupted
    title = (
        f"{sizes.name}: {sizes.replicas:,} running replicas, {sizes.heartbeats:,} heartbeats; "
        f"{report.machine_line(about)}"
    )
    console().print(report.table(figures, title))
    if json is not None:
        json.write_text(report.to_json(figures, sizes, about), encoding="utf-8")


app = typer.Typer(add_completion=False)
app.command()(main)

if __name__ == "__main__":
    app()
