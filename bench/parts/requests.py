"""Inference requests: the share of a core that a million per minute take."""

from bench.bench import MINUTE_MS, Bench, MeasuredWorker
from topics.catalogue import REQUESTS

PART = "inference requests"

_A_MILLION = 1_000_000


async def measure(bench: Bench, worker: MeasuredWorker) -> None:
    """Measure inference requests to an idle worker."""
    bench.show.part(f"Inference requests: {bench.sizes.requests:,}")
    records = bench.fleet.requests(bench.sizes.requests)
    at_ms = bench.tick_ms + 1_000
    sample = await worker.timed(REQUESTS.name, records, at_ms, bench.sizes.requests)
    minute_s = MINUTE_MS / 1_000
    bench.add(PART, "a million per minute", 100 * sample.cpu_s * _A_MILLION / sample.count / minute_s, "% of a core")
    bench.add(PART, "applied", sample.per_cpu_s, "per CPU second")
