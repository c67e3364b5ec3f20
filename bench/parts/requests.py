"""Inference requests: what share of a core a million a minute take."""

from bench.bench import MINUTE_MS, Bench, Worker
from topics.catalogue import REQUESTS

PART = "inference requests"

_A_MILLION = 1_000_000


async def measure(bench: Bench, worker: Worker) -> None:
    """Send requests to a worker that has nothing else to do."""
    bench.show.part(f"Inference requests: {bench.sizes.requests:,}")
    placed = bench.fleet.requests(bench.sizes.requests)
    at_ms = bench.minute_ms + bench.sizes.ticks * MINUTE_MS + 1_000
    sample = await worker.timed(REQUESTS.name, placed, at_ms, bench.sizes.requests)
    a_minute_s = MINUTE_MS / 1_000
    bench.add(PART, "a million a minute", 100 * sample.cpu_s * _A_MILLION / sample.count / a_minute_s, "% of a core")
    bench.add(PART, "applied", sample.per_cpu_s, "per CPU second")
