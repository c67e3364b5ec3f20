"""Writes the fleet's heartbeats: `python -m bench.soak.writer REPLICAS PARTITIONS EVENT_MS REAL_MS MINUTE_S`.

The last three are those of a `Clock`. Each replica sends a heartbeat every 30 s of event time, spread evenly. It runs
until SIGTERM. The last line of its output is the number of heartbeats, and the greatest delay of a write in seconds.
"""

import asyncio
import signal
import sys
from contextlib import suppress
from typing import Final

from bench.fleet import Fleet, RecordsByPartition, count
from bench.loader import Loader, loader
from bench.soak.clock import Clock, now_ms
from streams.settings import Settings
from topics.catalogue import HEARTBEATS

INTERVAL_MS: Final = 30_000
_SLICES: Final = 30


async def write(records: RecordsByPartition, clock: Clock, writer: Loader, stop: asyncio.Event) -> tuple[int, float]:
    """Write heartbeats until `stop` is set. Returns their number, and the greatest delay of a write in seconds."""
    slices = [
        {partition: found[at::_SLICES] for partition, found in records.items() if found[at::_SLICES]}
        for at in range(_SLICES)
    ]
    written, late_s, number = 0, 0.0, 0
    start_ms = clock.event_now_ms
    while not stop.is_set():
        due_ms = start_ms + number * INTERVAL_MS // _SLICES
        with suppress(TimeoutError):
            async with asyncio.timeout(clock.s_until(due_ms)):
                await stop.wait()
                break
        await writer.load(HEARTBEATS.name, slices[number % _SLICES], due_ms)
        written += count(slices[number % _SLICES])
        late_s = max(late_s, (now_ms() - clock.real_of(due_ms)) / 1_000)
        number += 1
    return written, late_s


async def main(replicas: int, partitions: int, clock: Clock) -> None:
    """Write heartbeats until SIGTERM, and print how many."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    records = Fleet(replicas, partitions).heartbeats(clock.event_ms)
    async with loader(Settings.load_or_exit()) as writer:
        print(*await write(records, clock, writer, stop))


if __name__ == "__main__":
    event_ms, real_ms = map(int, sys.argv[3:5])
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2]), Clock(event_ms, real_ms, float(sys.argv[5]))))
