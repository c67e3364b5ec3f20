"""Start-up: create the fleet by commands and callbacks in an empty worker."""

from bench.bench import Bench
from bench.fleet import prices
from topics.catalogue import COMMANDS, PRICES, PROGRESS
from topics.provision import provision

PART = "start-up"


async def start(bench: Bench) -> int:
    """Create the fleet. Returns the worker's memory in bytes before it had rows."""
    bench.show.part(f"Creating a fleet of {bench.fleet.replicas:,} replicas of {len(bench.fleet.orgs):,} orgs")
    await provision(bench.settings)
    await bench.write(PRICES.name, {0: list(prices())}, bench.minute_ms - 1_000)
    with bench.worker() as worker:
        await worker.ready()
        empty_bytes = worker.process.rss_bytes
        await bench.write(COMMANDS.name, bench.fleet.commands(), bench.minute_ms)
        await worker.applied(COMMANDS.name, "deployments created")
        up_ms = bench.minute_ms + 10_000
        sample = await worker.timed(PROGRESS.name, bench.fleet.starts(), up_ms, bench.fleet.replicas, "replicas start")
    bench.add(PART, "replicas entering running", sample.per_cpu_s, "per CPU second")
    return empty_bytes
