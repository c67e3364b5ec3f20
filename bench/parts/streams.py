"""Kafka Streams against Obol: the same job on the same bytes, alternately.

In each round, each of the two gets a backlog of heartbeats, and then a few minutes with a heartbeat of every replica
and a tick. The programs never run at the same time. What they kept and sent is compared after each round.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from bench.bench import MINUTE_MS, Bench, Measured
from bench.child import BenchError
from bench.figures import Better, Sample, typical
from bench.parts import heartbeats, start, ticks
from bench.peer import Peer
from bench.sizes import PARTITIONS
from bench.volume import changelog
from bench.work import Work, difference, work
from streams.billing.windows import Window
from topics.catalogue import CLOCK, HEARTBEATS, USAGE

ROUNDS: Final = 3

_WARM: Final = 500_000
"""The last heartbeats of the backlog, which are measured: by then, the JVM has compiled its hot methods."""


@dataclass(frozen=True, slots=True)
class Result:
    """What was measured of one program in one round."""

    heartbeats: Sample
    tick: Sample
    rss_bytes: int


@dataclass(frozen=True, slots=True)
class _Comparison:
    part: str
    unit: str
    value: Callable[[Result], float]
    better: Better
    target: float


PEER: Final = "Kafka Streams"
OBOL: Final = "Obol"
RATIO: Final = "Obol / Kafka Streams"

_COMPARISONS: Final = (
    _Comparison("heartbeats committed", "per second", lambda result: result.heartbeats.per_s, "more", 1.2),
    _Comparison(
        "CPU of heartbeats",
        "CPU s per million heartbeats",
        lambda result: result.heartbeats.cpu_s_per_million,
        "less",
        0.6,
    ),
    _Comparison("windows billed at a tick", "per second", lambda result: result.tick.per_s, "more", 1.2),
    _Comparison("resident memory", "MB", lambda result: result.rss_bytes / 1_000_000, "less", 0.4),
)


async def measure(bench: Bench, peer: Peer) -> None:
    """Measure both programs in `ROUNDS` rounds. Raises `BenchError` if they did not do the same work."""
    await start.start(bench)
    rounds: list[tuple[Result, Result]] = []
    for number in range(1, ROUNDS + 1):
        from_ms = bench.tick_ms
        streams_first = number % 2 == 1
        if streams_first:
            theirs, their_work = await _streams(bench, peer, number, from_ms)
        ours, our_work = await _obol(bench, number, from_ms)
        if not streams_first:
            theirs, their_work = await _streams(bench, peer, number, from_ms)
        if found := difference(their_work, our_work):
            raise BenchError(f"round {number}: Kafka Streams and Obol did different work: {found}")
        rounds.append((theirs, ours))
    for comparison in _COMPARISONS:
        _report(bench, comparison, rounds)


def _report(bench: Bench, comparison: _Comparison, rounds: Sequence[tuple[Result, Result]]) -> None:
    theirs = [comparison.value(result) for result, _ in rounds]
    ours = [comparison.value(result) for _, result in rounds]
    ratios = [our / their for our, their in zip(ours, theirs, strict=True)]
    for name, values in ((PEER, theirs), (OBOL, ours)):
        bench.add(comparison.part, name, median(values), comparison.unit, span=(min(values), max(values)))
    bench.add(
        comparison.part,
        RATIO,
        median(ratios),
        "times",
        target=comparison.target,
        better=comparison.better,
        span=(min(ratios), max(ratios)),
    )


async def _streams(bench: Bench, peer: Peer, number: int, from_ms: int) -> tuple[Result, Work]:
    """Measure Kafka Streams in a round that starts at `from_ms`, from an empty store."""
    bench.show.part(f"Round {number} of {ROUNDS}: Kafka Streams")
    prefix = f"streams-{number}."
    app_id = bench.settings.topic(f"streams-{number}")
    names = {topic: bench.settings.topic(prefix + topic) for topic in (HEARTBEATS.name, CLOCK.name, USAGE.name)}
    await bench.cluster.create(names.values(), PARTITIONS)
    await heartbeats.write_backlog(bench, from_ms, prefix)
    environment = {
        "KAFKA_BOOTSTRAP_SERVERS": ",".join(bench.settings.bootstrap_servers),
        "PEER_APP_ID": app_id,
        "PEER_HEARTBEATS": names[HEARTBEATS.name],
        "PEER_CLOCK": names[CLOCK.name],
        "PEER_USAGE": names[USAGE.name],
        "PEER_STATE_DIR": str(bench.folder / app_id),
    }
    with peer.run(bench.folder / f"{app_id}.log", environment, bench.fleet.replicas) as process:
        result = await _round(bench, Measured(bench, process, app_id, prefix), from_ms)
    return result, await work(bench.cluster, f"{app_id}-rows-changelog", names[USAGE.name])


async def _obol(bench: Bench, number: int, from_ms: int) -> tuple[Result, Work]:
    """Measure Obol in a round that starts at `from_ms`, with the rows of the rounds before."""
    bench.show.part(f"Round {number} of {ROUNDS}: Obol")
    usage = bench.settings.topic(USAGE.name)
    starts = await bench.cluster.ends(usage, PARTITIONS)
    await heartbeats.write_backlog(bench, from_ms)
    with bench.worker() as worker:
        await worker.ready()
        result = await _round(bench, worker, from_ms)
    return result, await work(bench.cluster, changelog(bench, Window.TABLE), usage, starts)


async def _round(bench: Bench, program: Measured, from_ms: int) -> Result:
    last = min(_WARM, bench.sizes.heartbeats // 2)
    committed = await program.applied(HEARTBEATS.name, "heartbeats committed", last=last)
    minutes = range(1, bench.sizes.ticks + 1)
    billed = [await ticks.minute(bench, program, from_ms + minute * MINUTE_MS) for minute in minutes]
    return Result(committed, typical(billed[1:]), program.process.rss_bytes)
