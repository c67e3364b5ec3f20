"""The figures of a run."""

from collections.abc import Iterator, Sequence
from statistics import linear_regression
from typing import Final

from bench.figures import Figure
from bench.soak.audit import Verdict
from bench.soak.watch import Billed, Usage

PART_AUDIT: Final = "usage events"
PART_TICKS: Final = "ticks"
PART_WORKER: Final = "worker"
MAX_GROWTH_PERCENT: Final = 5.0

_HOUR_MS: Final = 3_600_000
_SETTLED: Final = 1 / 3
"""The first part of a worker's samples, in which its memory still grows to its working size."""

_LONG_ENOUGH_MS: Final = 600_000
"""A trend over less than ten minutes is not compared with the target."""


def percentile(values: Sequence[float], percent: int) -> float:
    """Return the least value that at least `percent` % of the values do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)]


def cpu_percent(samples: Sequence[Usage]) -> float:
    """Return the share of a core over all samples of one worker."""
    first, last = samples[0], samples[-1]
    return 100 * (last.cpu_s - first.cpu_s) * 1_000 / (last.at_ms - first.at_ms)


def settled(samples: Sequence[Usage]) -> Sequence[Usage]:
    """Return the samples after a worker's memory has grown to its working size."""
    return samples[int(len(samples) * _SETTLED) :]


def growth_percent(samples: Sequence[Usage]) -> float:
    """Return by how much a straight line through the samples' memory grows in an hour, in percent of its start."""
    slope, intercept = linear_regression(
        [(sample.at_ms - samples[0].at_ms) / _HOUR_MS for sample in samples], [sample.rss_bytes for sample in samples]
    )
    return 100 * slope / intercept


def audit_figures(verdict: Verdict) -> Iterator[Figure]:
    """Yield the figures of an audit."""
    yield Figure(PART_AUDIT, "committed", verdict.events, "usage events")
    yield Figure(PART_AUDIT, "expected", verdict.expected, "usage events")
    for name, value in (("lost", verdict.lost), ("doubled", verdict.doubled), ("wrong", verdict.wrong)):
        yield Figure(PART_AUDIT, name, value, "usage events", target=0, better="less")


def tick_figures(billed: Sequence[Billed], crash_ms: int) -> Iterator[Figure]:
    """Yield the delays, from when a tick is due to the commit of its usage events, per partition and minute.

    Those of the minute in which the worker was killed, at `crash_ms`, are apart.
    """
    usual = [found.delay_s for found in billed if found.minute_ms != crash_ms]
    crash = [found.delay_s for found in billed if found.minute_ms == crash_ms]
    yield Figure(PART_TICKS, "delay, median", percentile(usual, 50), "s")
    yield Figure(PART_TICKS, "delay, 99 %", percentile(usual, 99), "s")
    yield Figure(PART_TICKS, "delay, longest", max(usual), "s")
    yield Figure(PART_TICKS, "delay, longest in the minute of the crash", max(crash), "s")


def worker_figures(workers: Sequence[Sequence[Usage]], recovery_s: float) -> Iterator[Figure]:
    """Yield the resources of the worker before and after the crash."""
    for name, samples in zip(("before the crash", "after the crash"), workers, strict=True):
        yield Figure(PART_WORKER, f"CPU, {name}", cpu_percent(samples), "% of a core")
        yield Figure(PART_WORKER, f"resident memory, {name}, first", samples[0].rss_bytes / 1e6, "MB")
        yield Figure(PART_WORKER, f"resident memory, {name}, last", samples[-1].rss_bytes / 1e6, "MB")
    after = settled(workers[-1])
    is_long = after[-1].at_ms - after[0].at_ms >= _LONG_ENOUGH_MS
    yield Figure(
        PART_WORKER,
        "growth of its memory, later two thirds",
        growth_percent(after),
        "% per hour",
        target=MAX_GROWTH_PERCENT if is_long else None,
        better="less",
    )
    yield Figure(PART_WORKER, "from SIGKILL to the next commit", recovery_s, "s")
