"""The upper limit: aiokafka reads a topic and discards the records.

Run as `python -m bench.raw TOPIC PARTITIONS RECORDS`. The last line of its output is the elapsed time and the CPU time,
in seconds.
"""

import asyncio
import sys
import time
from typing import Final

from aiokafka import AIOKafkaConsumer, TopicPartition

from streams.settings import Settings

MAX_POLL_RECORDS: Final = 5_000


async def read(topic: str, partitions: int, records: int) -> tuple[float, float]:
    """Read `records` records. Returns the elapsed time and the CPU time in seconds."""
    consumer = AIOKafkaConsumer(
        **Settings.load_or_exit().kafka_client_options(), enable_auto_commit=False, auto_offset_reset="earliest"
    )
    try:
        await consumer.start()
        assigned = [TopicPartition(topic, partition) for partition in range(partitions)]
        consumer.assign(assigned)
        await consumer.seek_to_beginning(*assigned)
        wall_s, cpu_s = time.perf_counter(), time.process_time()
        left = records
        while left > 0:
            found = await consumer.getmany(timeout_ms=1_000, max_records=MAX_POLL_RECORDS)
            left -= sum(map(len, found.values()))
        return time.perf_counter() - wall_s, time.process_time() - cpu_s
    finally:
        await consumer.stop()


if __name__ == "__main__":
    print(*asyncio.run(read(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))))
