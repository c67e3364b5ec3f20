"""Plays a stage before a running Obol: minute by minute in time-lapse, or second by second with the wall clock."""

import time
from collections.abc import Callable, Iterator
from typing import Final

from sim.kafka import Link
from sim.records import MINUTE_MS, TICK_DELAY_MS, Record, tick
from sim.stage import Stage

STEP_DEADLINE_S: Final = 60.0
"""How long a worker may take for one minute of a time-lapse."""


def now_ms() -> int:
    """Read the wall clock, in ms."""
    return time.time_ns() // 1_000_000


def ticks(at_ms: int, partitions: int) -> Iterator[Record]:
    """Tell every partition what time it is."""
    return (tick(at_ms, partition) for partition in range(partitions))


def tick_times(start_ms: int, end_ms: int) -> range:
    """Every tick from the minute `start_ms` to the minute `end_ms`, both included."""
    return range(start_ms + TICK_DELAY_MS, end_ms + TICK_DELAY_MS + 1, MINUTE_MS)


async def time_lapse(stage: Stage, link: Link, times: range, after_minute: Callable[[int], None]) -> None:
    """Play a minute for each tick of `times` as fast as Obol takes them, its clock being `log`.

    Each minute: all its records, then the ticks; once Obol has committed them, its orders and usage are heard, and
    answered in the next minute. Raises NotPassedError when Obol stands still.
    """
    for tick_ms in times:
        # At one ms a tick comes last: its topic has the lowest rank.
        await link.publisher.send(stage.until(tick_ms + 1))
        offsets = await link.publisher.send(ticks(tick_ms, link.partitions))
        await link.listener.passed(offsets, STEP_DEADLINE_S)
        stage.hear(await link.listener.heard(), tick_ms)
        after_minute(tick_ms)


async def live(
    stage: Stage, link: Link, after_tick_ms: int, *, ticking: bool, after_second: Callable[[int], None]
) -> None:
    """Play on with the wall clock until cancelled; `ticking` where Obol's clock is `log`.

    Begins where the play up to `after_tick_ms` ended; minutes that have gone by since are made up for first.
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
        stage.hear(await link.listener.next(timeout_s=1.0), now_ms())
        after_second(now_ms())


def last_tick_ms(now: int) -> int:
    """Tell the time of the last tick not after `now`."""
    return (now - TICK_DELAY_MS) // MINUTE_MS * MINUTE_MS + TICK_DELAY_MS
