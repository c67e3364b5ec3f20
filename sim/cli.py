"""`python -m sim fleet|croesus|demo`: the stand-ins, against any cluster that `KAFKA_BOOTSTRAP_SERVERS` names."""

import asyncio
import logging
import os
from collections.abc import Coroutine
from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from aiokafka.errors import KafkaError

from sim import driver, fleet, run, show
from sim.demo import Demo
from sim.dunning import Dunning
from sim.kafka import Installation
from sim.records import MINUTE_MS, TICK_DELAY_MS
from sim.signals import ended_by_signals
from topics.provision import ProvisionError

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help=(
        "A fleet and a Croesus that speak only Obol's wire contract. They read KAFKA_BOOTSTRAP_SERVERS, "
        "OBOL_NAMESPACE, "
        "OBOL_PARTITIONS, OBOL_REPLICATION, OBOL_TIMESTAMPS and KAFKA_SECURITY_… as a worker does."
    ),
)

# The client warns of each retry, as after topics were made; a failure raises and is told in one line.
logging.getLogger("aiokafka").setLevel(logging.CRITICAL)

Seed = Annotated[int, typer.Option(help="The same seed gives the same fleet.")]
Orgs = Annotated[int, typer.Option(min=1, help="Orgs, named org-0001 and on.")]


@app.command("fleet")
def fleet_command(  # noqa: PLR0913 - one argument an option
    *,
    seed: Seed = 1,
    orgs: Orgs = 20,
    deployments: Annotated[int, typer.Option(min=0, help="Deployments, spread over the orgs.")] = 40,
    replicas: Annotated[int, typer.Option(min=0, help="Replicas that the deployments begin with, all in all.")] = 100,
    instances: Annotated[int, typer.Option(min=0, help="Instances, at most 20 an org.")] = 40,
    minutes: Annotated[int, typer.Option(min=2, help="Users come and go within this time.")] = 30,
    hours: Annotated[
        float | None,
        typer.Option(
            min=0.1, help="Write the log of these last hours, ticks included, for a worker with OBOL_CLOCK=log."
        ),
    ] = None,
    ticks: Annotated[
        bool, typer.Option("--ticks", help="Send ticks as well, for a worker with OBOL_CLOCK=log.")
    ] = False,
) -> None:
    """Let a fleet live with the wall clock and obey Obol's orders until Ctrl-C; or with --hours, write one's log."""
    installation, console = _installation(), show.console()
    if hours is None:
        plan = run.FleetPlan(seed, orgs, deployments, replicas, instances, minutes)
        _run(run.live_fleet(plan, installation, console, ticking=ticks))
        return
    if installation.timestamps != "producer":
        raise typer.BadParameter(
            "--hours writes a log with times of its own; set OBOL_TIMESTAMPS=producer, here and for the worker"
        )
    start_ms = driver.last_tick_ms(driver.now_ms()) - TICK_DELAY_MS - int(hours * 60) * MINUTE_MS
    records = fleet.timeline(
        seed,
        orgs,
        replicas,
        start_ms,
        hours,
        deployments=deployments,
        instances=instances,
        partitions=installation.partitions,
    )
    written = _run(run.write_log(records, installation, console))
    console.print(
        f"{written or 0:,} records written, from {datetime.fromtimestamp(start_ms / 1000, UTC):%F %T} UTC on."
    )


@app.command()
def croesus(
    *,
    orgs: Orgs = 20,
    opening: Annotated[str, typer.Option(help="Each org's opening balance.")] = "5000",
    top_up: Annotated[str, typer.Option(help="What an org pays in when it has run dry.")] = "5000",
    top_up_after: Annotated[int, typer.Option(min=1, help="Minutes from running dry to paying.")] = 20,
    suspend_after: Annotated[int, typer.Option(min=0, help="Minutes from running dry to suspension.")] = 10,
    once: Annotated[
        bool, typer.Option("--once", help="RowStore what usage there is, publish nothing, and end.")
    ] = False,
) -> None:
    """Be Croesus until Ctrl-C: book usage, publish prices, balances and suspensions. Ends with the bill.

    Usage is booked from its beginning at each start, so the ledger is whole; what orgs paid in before is not known any
    more. An event is priced as of its interval_start; a minute that had no price then, at the next price that came.
    The exit code is 1 when an event came again with another content, or was never priced.
    """
    installation, console = _installation(), show.console()
    desk = run.Desk(
        orgs,
        opening,
        lambda books: Dunning(books, top_up, top_up_after * MINUTE_MS, suspend_after * MINUTE_MS),
    )
    _run(run.keep_books(desk, installation, console, once=once))
    console.print(show.bill(desk.croesus, sorted(desk.croesus.accounts)))
    console.print(show.verdicts(desk.croesus))
    for refusal in desk.croesus.refusals[:20]:
        console.print(refusal, style="red", markup=False)
    raise typer.Exit(1 if desk.croesus.refusals else 0)


@app.command()
def demo(
    *,
    seed: Seed = 7,
    extras: Annotated[int, typer.Option(min=1, help="Orgs without a story.")] = 10,
    once: Annotated[bool, typer.Option(help="End after the stories; DEMO=once does the same.")] = False,
    keep_topics: Annotated[bool, typer.Option("--keep-topics", help="Leave the demo's topics on the cluster.")] = False,
) -> None:
    """Start a worker, play two hours of a fleet in a minute or so, show what they cost, and live on until Ctrl-C."""
    name = f"demo-{datetime.now(UTC):%Y%m%d-%H%M%S}"
    installation = replace(_installation(), namespace=name, timestamps="producer")
    play = Demo(
        installation=installation,
        seed=seed,
        extras=extras,
        once=once or os.environ.get("DEMO") == "once",
        keep_topics=keep_topics,
        console=show.console(),
    )
    raise typer.Exit(asyncio.run(play.run()))


def _installation() -> Installation:
    try:
        return Installation.from_env()
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


def _run(work: Coroutine[Any, Any, int | None]) -> int | None:
    """Run to the end, or to Ctrl-C: then None. What Kafka says against it ends the program with one line."""

    async def until_ended() -> int | None:
        async with ended_by_signals():
            return await work

    try:
        return asyncio.run(until_ended())
    except asyncio.CancelledError:
        return None
    except (KafkaError, ProvisionError, OSError, ValueError) as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(1) from error
