"""The upper limit: aiokafka reads a topic and discards the records.

Run as `python -m bench.raw TOPIC PARTITIONS RECORDS`. The last line of its output is the elapsed time and the CPU time,
in seconds.
"""

import asyncio
import sys
import time
from typing import Final

from aiokafka import TopicPartition

from bench.cluster import consumer
from streams.settings import Settings

MAX_POLL_RECORDS: Final = 5_000


async def read(topic: str, partitions: int, records: int) -> tuple[float, float]:
    """Read `records` records. Returns the elapsed time and the CPU time in seconds."""
    async with consumer(Settings.load_or_exit(), auto_offset_reset="earliest") as reader:
        assigned = [TopicPartition(topic, partition) for partition in range(partitions)]
        reader.assign(assigned)
        await reader.seek_to_beginning(*assigned)
        wall_s, cpu_s = time.perf_counter(), time.process_time()
        left = records
        while left > 0:
            found = await reader.getmany(timeout_ms=1_000, max_records=MAX_POLL_RECORDS)
            left -= sum(map(len, found.values()))
        return time.perf_counter() - wall_s, time.process_time() - cpu_s


if __name__ == "__main__":
    print(*asyncio.run(read(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))))
