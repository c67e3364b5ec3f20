"""Ticks of the wall clock: 2 s after each minute starts."""

from __future__ import annotations

import asyncio

import pytest
from aiokafka.errors import KafkaTimeoutError

from streams.engine.tasks import cancel_and_wait
from streams.engine.ticks import TickWriter, next_tick_ms
from tests.unit.engine.fakes import FakeClock, FakeKafka

T0 = 1_764_417_600_000  # a whole minute


@pytest.mark.parametrize(
    ("now_ms", "due_ms"),
    [
        (T0, T0 + 2_000),
        (T0 + 1_999, T0 + 2_000),
        (T0 + 2_000, T0 + 62_000),
        (T0 + 2_001, T0 + 62_000),
        (T0 + 59_999, T0 + 62_000),
        (T0 + 60_000, T0 + 62_000),
    ],
)
def test_the_next_tick_is_two_seconds_into_a_minute(now_ms: int, due_ms: int) -> None:
    assert next_tick_ms(now_ms) == due_ms


async def test_each_partition_of_the_worker_gets_a_tick_of_every_minute() -> None:
    kafka, clock, partitions = FakeKafka(), FakeClock(), [1, 3]
    writer = TickWriter(kafka.producer(), clock, "obol.clock", lambda: partitions)
    writing = asyncio.create_task(writer.run())
    await clock.advance(62.0)
    partitions.remove(1)
    await clock.advance(60.0)
    await cancel_and_wait([writing])
    # The clock starts at 0: the first ticks are due 2 s into the minutes 0, 1 and 2.
    assert [record[1:4] for record in kafka.logs["obol.clock", 1]] == [
        (2_000, None, b'{"type":"tick","at":2000}'),
        (62_000, None, b'{"type":"tick","at":62000}'),
    ]
    assert [record.timestamp for record in kafka.logs["obol.clock", 3]] == [2_000, 62_000, 122_000]


async def test_a_tick_that_is_not_stored_does_not_delay_others(caplog: pytest.LogCaptureFixture) -> None:
    kafka, clock, partitions = FakeKafka(), FakeClock(), [1, 3]
    kafka.stuck.add(("obol.clock", 1))
    writer = TickWriter(kafka.producer(), clock, "obol.clock", lambda: partitions)
    writing = asyncio.create_task(writer.run())
    await clock.advance(70.0)
    assert [record.timestamp for record in kafka.logs["obol.clock", 3]] == [2_000, 62_000]
    kafka.failing["send"] = KafkaTimeoutError()
    await clock.advance(60.0)
    assert "the tick of partition 3 was not stored (KafkaTimeoutError())" in caplog.text
    kafka.failing.clear()
    kafka.stuck.clear()
    partitions.remove(1)
    await clock.advance(60.0)
    assert [record.timestamp for record in kafka.logs["obol.clock", 3]] == [2_000, 62_000, 182_000]
    assert not writing.done()
    await cancel_and_wait([writing])
    await writer.stop()
