"""`python -m bench.soak`."""

import asyncio
import json as json_format
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated

import typer
from aiokafka.errors import KafkaError

from bench import report
from bench.bench import Bench
from bench.child import BenchError
from bench.cli import console, prepare
from bench.run import run
from bench.show import Show
from bench.sizes import QUICK, REPLICAS_PER_DEPLOYMENT
from bench.soak.clock import REAL_MINUTE_S
from bench.soak.run import Plan, Soak
from streams.limits import MINUTE_MS

_SPARE_MINUTES = 2


def main(
    replicas: Annotated[int, typer.Option(min=REPLICAS_PER_DEPLOYMENT, help="Running replicas.")] = 100_000,
    minutes: Annotated[int, typer.Option(min=2, help="How many minutes are billed.")] = 10,
    minute_s: Annotated[
        float,
        typer.Option(min=5, max=REAL_MINUTE_S, help="Seconds in which a minute passes; less than 60: time-lapse."),
    ] = REAL_MINUTE_S,
    json: Annotated[Path | None, typer.Option(help="Also write the figures to this file.")] = None,
) -> None:
    """Run a worker under a constant load, kill it once, and compare every usage event with what is due."""
    about = prepare()
    sizes = replace(QUICK, name="soak", replicas=replicas // REPLICAS_PER_DEPLOYMENT * REPLICAS_PER_DEPLOYMENT)
    plan = Plan(minutes, minute_s)
    soaks: list[Soak] = []

    async def measure(bench: Bench) -> None:
        soaks.append(Soak(bench, plan))
        await soaks[0].run()

    settings = {"timestamps": "broker", "clock": "wall"} if plan.is_real_time else {}
    started_ago_ms = (minutes + _SPARE_MINUTES) * MINUTE_MS
    try:
        figures = asyncio.run(run(sizes, Show(), measure, started_ago_ms=started_ago_ms, **settings))
    except (BenchError, KafkaError) as error:
        print(f"error: {error}", file=sys.stderr)
        raise typer.Exit(1) from error
    except KeyboardInterrupt as interrupted:
        raise typer.Exit(130) from interrupted
    pace = "in real time" if plan.is_real_time else f"in time-lapse, a minute in {minute_s:g} s"
    title = f"soak: {sizes.replicas:,} running replicas, {minutes} minutes {pace}; {report.machine_line(about)}"
    console().print(report.table(figures, title))
    if json is not None:
        found = [{**asdict(figure), "met": figure.met} for figure in figures]
        run_of = {"replicas": sizes.replicas, **asdict(plan)}
        written = {"machine": about, "run": run_of, "figures": found, "minutes": soaks[0].minutes}
        json.write_text(json_format.dumps(written, indent=2) + "\n", encoding="utf-8")
    verdict = soaks[0].verdict
    if verdict is None or not verdict.is_exact:
        print("error: usage events were lost, doubled or wrong", file=sys.stderr)
        raise typer.Exit(1)


app = typer.Typer(add_completion=False)
app.command()(main)

if __name__ == "__main__":
    app()
