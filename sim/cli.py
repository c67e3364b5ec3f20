"""`python -m sim fleet|croesus|demo`: run the stand-ins on the cluster of `KAFKA_BOOTSTRAP_SERVERS`."""

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
        "Stand-ins for a fleet and for Croesus, which use only Obol's wire contract. They read "
        "KAFKA_BOOTSTRAP_SERVERS, OBOL_NAMESPACE, OBOL_PARTITIONS, OBOL_REPLICATION, OBOL_TIMESTAMPS and the "
        "KAFKA_… security settings as a worker does."
    ),
)

# aiokafka logs every retry. Failures are raised, and printed in one line.
logging.getLogger("aiokafka").setLevel(logging.CRITICAL)

Seed = Annotated[int, typer.Option(help="The same seed gives the same fleet.")]
Orgs = Annotated[int, typer.Option(min=1, help="Orgs, named org-0001 and on.")]


@app.command("fleet")
def fleet_command(  # noqa: PLR0913 - one argument an option
    *,
    seed: Seed = 1,
    orgs: Orgs = 20,
    deployments: Annotated[int, typer.Option(min=0, help="Deployments, spread over the orgs.")] = 40,
    replicas: Annotated[int, typer.Option(min=0, help="Initial replicas of all deployments together.")] = 100,
    instances: Annotated[int, typer.Option(min=0, help="Instances, at most 20 per org.")] = 40,
    minutes: Annotated[int, typer.Option(min=2, help="Time within which users create and stop things.")] = 30,
    hours: Annotated[
        float | None,
        typer.Option(min=0.1, help="Write a log of the last hours, with ticks, for a worker with OBOL_CLOCK=log."),
    ] = None,
    ticks: Annotated[
        bool, typer.Option("--ticks", help="Send ticks as well, for a worker with OBOL_CLOCK=log.")
    ] = False,
) -> None:
    """Run a fleet that executes Obol's orders, until Ctrl-C. With --hours, write the log of a fleet instead."""
    installation, console = _installation(), show.console()
    if hours is None:
        plan = run.FleetPlan(seed, orgs, deployments, replicas, instances, minutes)
        _run(run.live_fleet(plan, installation, console, ticking=ticks))
        return
    if installation.timestamps != "producer":
        raise typer.BadParameter(
            "--hours writes records with their own timestamps; set OBOL_TIMESTAMPS=producer, here and for the worker"
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
        f"{written or 0:,} records written, starting at {datetime.fromtimestamp(start_ms / 1000, UTC):%F %T} UTC."
    )


@app.command()
def croesus(
    *,
    orgs: Orgs = 20,
    opening: Annotated[str, typer.Option(help="Each org's opening balance.")] = "5000",
    top_up: Annotated[str, typer.Option(help="What an org pays in when its balance is 0 or less.")] = "5000",
    top_up_after: Annotated[int, typer.Option(min=1, help="Minutes at a balance of 0 or less until it pays.")] = 20,
    suspend_after: Annotated[
        int, typer.Option(min=0, help="Minutes at a balance of 0 or less until it is suspended.")
    ] = 10,
    once: Annotated[bool, typer.Option("--once", help="Book the existing usage, publish nothing, and exit.")] = False,
) -> None:
    """Run a stand-in for Croesus until Ctrl-C: book usage, publish prices, balances and suspensions. Prints the bill.

    Each start books all usage from the beginning, so the ledger is complete, but earlier payments are lost. The price
    of an event is that of its interval_start, or the next one if there was none. The exit code is 1 if an id came again
    with different content, or an event never had a price.
    """
    installation, console = _installation(), show.console()
    service = run.CroesusService(
        orgs,
        opening,
        lambda ledger: Dunning(ledger, top_up, top_up_after * MINUTE_MS, suspend_after * MINUTE_MS),
    )
    _run(run.run_croesus(service, installation, console, once=once))
    console.print(show.bill(service.croesus, sorted(service.croesus.accounts)))
    console.print(show.verdicts(service.croesus))
    for refusal in service.croesus.refusals[:20]:
        console.print(refusal, style="red", markup=False)
    raise typer.Exit(1 if service.croesus.refusals else 0)


@app.command()
def demo(
    *,
    seed: Seed = 7,
    extras: Annotated[int, typer.Option(min=1, help="Additional orgs with random behavior.")] = 10,
    once: Annotated[bool, typer.Option(help="Exit after the report; DEMO=once does the same.")] = False,
    keep_topics: Annotated[bool, typer.Option("--keep-topics", help="Do not delete the demo's topics.")] = False,
) -> None:
    """Start a worker, play two hours of a fleet in time-lapse, print the bill, and continue live until Ctrl-C."""
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
    """Run a coroutine; returns None after Ctrl-C. Errors of Kafka end the program with one line."""

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
