"""Run a stage against a running Obol: minute by minute in time-lapse, or in real time."""

import time
from collections.abc import Callable, Iterator
from typing import Final

from sim.kafka import Link
from sim.records import MINUTE_MS, TICK_DELAY_MS, Record, tick
from sim.stage import Stage

STEP_DEADLINE_S: Final = 60.0
"""The time limit for a worker to process one minute of a time-lapse."""


def now_ms() -> int:
    """Return the wall-clock time in ms."""
    return time.time_ns() // 1_000_000


def ticks(at_ms: int, partitions: int) -> Iterator[Record]:
    """Return a tick for each partition."""
    return (tick(at_ms, partition) for partition in range(partitions))


def tick_times(start_ms: int, end_ms: int) -> range:
    """Return the times of all ticks from the minute `start_ms` to the minute `end_ms`, both included."""
    return range(start_ms + TICK_DELAY_MS, end_ms + TICK_DELAY_MS + 1, MINUTE_MS)


async def time_lapse(stage: Stage, link: Link, times: range, after_minute: Callable[[int], None]) -> None:
    """Play a minute for each tick of `times` as fast as Obol commits them. Obol's clock must be `log`.

    For each minute, sends the records and then the ticks, waits until Obol has committed them, and passes Obol's
    outputs to the stage, which reacts in the next minute. Raises `NotCommittedError` after `STEP_DEADLINE_S`.
    """
    for tick_ms in times:
        # At equal timestamps a tick is applied last, since its topic has the lowest rank.
        await link.publisher.send(stage.until(tick_ms + 1))
        offsets = await link.publisher.send(ticks(tick_ms, link.partitions))
        await link.listener.wait_until_committed(offsets, STEP_DEADLINE_S)
        stage.receive(await link.listener.read_to_end(), tick_ms)
        after_minute(tick_ms)


async def live(
    stage: Stage, link: Link, after_tick_ms: int, *, ticking: bool, after_second: Callable[[int], None]
) -> None:
    """Continue in real time after the tick `after_tick_ms`, until cancelled. Minutes that have passed come first.

    `ticking`: also send ticks, which is required where Obol's clock is `log`.
    """
    next_tick_ms = after_tick_ms + MINUTE_MS
    while True:
        now = now_ms()
        while next_tick_ms <= now:
            await link.publisher.send(stage.until(next_tick_ms + 1))
            if ticking:
                await link.publisher.send(ticks(next_tick_ms, link.partitions))
            next_tick_ms += MINUTE_MS
        await link.publisher.send(stage.until(now + 1))
        stage.receive(await link.listener.poll(timeout_s=1.0), now_ms())
        after_second(now_ms())


def last_tick_ms(now: int) -> int:
    """Return the time of the last tick not after `now`."""
    return (now - TICK_DELAY_MS) // MINUTE_MS * MINUTE_MS + TICK_DELAY_MS
