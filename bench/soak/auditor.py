"""Audits usage events while they are written: `python -m bench.soak.auditor REPLICAS PARTITIONS UNTIL`.

`UNTIL`: the time in ms up to which all windows must have been billed when SIGTERM arrives. It then reads to the end of
the topic, and the last line of its output is the result as JSON. Each line before is the number of usage events so far.
"""

import asyncio
import json
import signal
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import asdict
from functools import lru_cache
from typing import Any, Final

import msgspec
from aiokafka import TopicPartition

from bench.cluster import consumer
from bench.soak.audit import Audit, Verdict
from schemas.times import parse_rfc3339
from streams.settings import Settings
from topics.catalogue import PROGRESS, USAGE

_POLL_MS: Final = 500
_PRINT_EVERY_S: Final = 1.0
_MAX_RECORDS: Final = 20_000

_parse = lru_cache(maxsize=4_096)(parse_rfc3339)


class _Started(msgspec.Struct):
    replica_id: str


class _Billed(msgspec.Struct):
    replica_id: str
    interval_start: str
    interval_end: str


async def audit(settings: Settings, replicas: int, partitions: int, until_ms: int) -> Verdict:
    """Audit until SIGTERM, and then up to the end of the topic."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    result = Audit(replicas)
    async with consumer(settings, isolation_level="read_committed", auto_offset_reset="none") as reader:
        started = msgspec.json.Decoder(_Started)
        await _assign(reader, settings.topic(PROGRESS.name), partitions)
        async for record in _to_end(reader):
            result.opened(started.decode(record.value).replica_id, record.timestamp)
        await _assign(reader, settings.topic(USAGE.name), partitions)
        await _follow(reader, result, stop)
        async for record in _to_end(reader):
            _event(result, record.value)
    return result.finish(until_ms)


async def _follow(reader: Any, result: Audit, stop: asyncio.Event) -> None:
    printed_s = time.monotonic()
    while not stop.is_set():
        for records in (await reader.getmany(timeout_ms=_POLL_MS, max_records=_MAX_RECORDS)).values():
            for record in records:
                _event(result, record.value)
        if time.monotonic() >= printed_s + _PRINT_EVERY_S:
            printed_s = time.monotonic()
            print(result.events, flush=True)


_DECODER: Final = msgspec.json.Decoder(_Billed)


def _event(result: Audit, value: bytes) -> None:
    billed = _DECODER.decode(value)
    result.event(billed.replica_id, _parse(billed.interval_start), _parse(billed.interval_end))


async def _assign(reader: Any, topic: str, partitions: int) -> None:
    tps = [TopicPartition(topic, partition) for partition in range(partitions)]
    reader.assign(tps)
    for tp in tps:
        # Not "the earliest": records that were deleted before they were read are an error.
        reader.seek(tp, 0)


async def _to_end(reader: Any) -> AsyncIterator[Any]:
    tps = reader.assignment()
    ends = await reader.end_offsets(tps)
    while behind := [tp for tp in tps if await reader.position(tp) < ends[tp]]:
        for records in (await reader.getmany(*behind, timeout_ms=_POLL_MS)).values():
            for record in records:
                yield record


if __name__ == "__main__":
    verdict = asyncio.run(audit(Settings.load_or_exit(), *map(int, sys.argv[1:4])))
    print(json.dumps(asdict(verdict)), flush=True)
