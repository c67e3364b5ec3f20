"""`croesus.prices` as a worker reads it: all committed records at the start, then new ones."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from streams.engine.prices import PriceReader
from streams.engine.transactions import UNDECIDED_S
from tests.unit.engine.fakes import FakeAdmin, FakeClock, FakeKafka, FakeReader, Written

if TYPE_CHECKING:
    import pytest

TOPIC = ("croesus.prices", 0)
H100, A100 = b"dedicated.h100.1x", b"dedicated.a100.1x"


def price(offset: int, at_ms: int, profile: bytes, amount: str = "1", currency: str = "JPY") -> Written:
    value = f'{{"profile":"{profile.decode()}","price":"{amount}","currency":"{currency}"}}'
    return Written(offset, at_ms, profile, value.encode())


def reader_of(*records: Written) -> tuple[PriceReader, FakeReader]:
    kafka = FakeKafka()
    kafka.logs[TOPIC] = list(records)
    reader = FakeReader(kafka, TOPIC)
    return PriceReader(reader, FakeAdmin(kafka), FakeClock(), "JPY"), reader


def open_at_1() -> tuple[PriceReader, FakeReader, FakeClock]:
    """Two prices, the second in a transaction that is open."""
    kafka, clock = FakeKafka(), FakeClock()
    kafka.logs[TOPIC] = [price(0, 1_000, H100), price(1, 2_000, A100)]
    kafka.stable[TOPIC] = 1
    reader = FakeReader(kafka, TOPIC)
    return PriceReader(reader, FakeAdmin(kafka), clock, "JPY"), reader, clock


async def test_start_reads_all_prices() -> None:
    prices, _ = reader_of(price(0, 1_000, H100, "1"), price(1, 3_000, H100, "2"), Written(2, -1), price(3, 2_000, A100))
    await prices.start()
    assert (prices.position, prices.as_of, prices.refused) == (4, 3_000, 0)
    assert {profile: len(history) for profile, history in prices.prices.history.items()} == {
        H100.decode(): 2,
        A100.decode(): 1,
    }


async def test_an_open_transaction_is_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    prices, reader, clock = open_at_1()
    starting = asyncio.create_task(prices.start())
    await clock.advance(UNDECIDED_S - 2.0)
    assert not starting.done()
    (line,) = caplog.messages
    assert line.startswith("croesus.prices partition 0: a transaction of another program is open since offset 1")
    assert "kafka-transactions.sh --abort --topic croesus.prices --partition 0 --start-offset 1" in line
    # What is written after the start is not waited for.
    reader.kafka.logs[TOPIC].append(price(2, 3_000, H100))
    reader.kafka.stable[TOPIC] = 2
    await clock.advance(1.0)
    await starting
    assert prices.position == 2


async def test_a_transaction_that_stays_open_does_not_block_the_start(
    caplog: pytest.LogCaptureFixture,
) -> None:
    prices, reader, clock = open_at_1()
    starting = asyncio.create_task(prices.start())
    await clock.advance(UNDECIDED_S + 1.0)
    await starting
    assert prices.position == 1
    assert caplog.messages[-1].endswith("starting without the prices there")
    reading = asyncio.create_task(prices.read())
    await asyncio.sleep(0)
    assert not reading.done()
    del reader.kafka.stable[TOPIC]
    reader.more.set()
    assert await reading
    assert (prices.position, prices.as_of) == (2, 2_000)


async def test_reading_nothing_keeps_the_position(monkeypatch: pytest.MonkeyPatch) -> None:
    prices, reader = reader_of(price(0, 1_000, H100))
    await prices.start()

    async def nothing() -> tuple[list[Written], int]:
        return [], 1

    monkeypatch.setattr(reader, "read", nothing)
    assert not await prices.read()


async def test_an_empty_topic_has_no_prices() -> None:
    prices, _ = reader_of()
    await prices.start()
    assert (prices.position, prices.as_of, prices.prices.history) == (0, None, {})


async def test_bad_prices_are_counted_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    prices, _ = reader_of(
        Written(0, 1_000, H100, b"{"),
        price(1, 2_000, H100, currency="USD"),
        price(2, 10**15, H100)._replace(timestamp=10**15),
    )
    await prices.start()
    assert (prices.position, prices.as_of, prices.refused, prices.prices.history) == (3, 2_000, 3, {})
    assert "price at offset 0 is ignored: " in caplog.text
    assert "price at offset 2 is ignored: its timestamp, 1000000000000000 ms, is outside the years" in caplog.text
