"""`croesus.prices`, read by every worker from its beginning, before it does anything else (contract, "In")."""

import logging
import time
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, TopicPartition

from schemas.prices import PriceRemoved
from schemas.times import is_time
from streams.billing.prices import PriceRecord, Prices
from streams.engine.ends import Ends
from topics.codec import Rejected, decode_prices

_POLL_MS: Final = 100
_PROGRESS_S: Final = 1.0

log = logging.getLogger(__name__)


class PriceReader:
    """Keeps `prices` up to date.

    `position`: everything before this offset is known. `as_of`: the topic's greatest time, in ms, or None. `refused`:
    how many bad records were ignored.
    """

    def __init__(self, client_options: dict[str, Any], topic: str, currency: str) -> None:
        self.prices = Prices()
        self.position = 0
        self.as_of: int | None = None
        self.refused = 0
        self._options = client_options
        self._partition = TopicPartition(topic, 0)
        self._currency = currency
        self._consumer: Any = None

    async def start(self, ends: Ends) -> None:
        """Read everything that is there."""
        self._consumer = AIOKafkaConsumer(
            **self._options,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            fetch_max_wait_ms=_POLL_MS,
        )
        await self._consumer.start()
        self._consumer.assign([self._partition])
        await self._consumer.seek_to_beginning(self._partition)
        end = (await ends.ends([self._partition]))[self._partition]
        told_s = time.monotonic()
        while self.position < end:
            await self.read()
            if time.monotonic() >= told_s + _PROGRESS_S:
                log.info("reading prices: %d of %d", self.position, end)
                told_s += _PROGRESS_S
        log.info("prices of %d profiles are known", len(self.prices.history))

    async def read(self) -> bool:
        """Take what is new; returns whether the position has moved. Waits a moment where nothing is."""
        found = await self._consumer.getmany(self._partition, timeout_ms=_POLL_MS)
        for records in found.values():
            self._learn(records)
        before, self.position = self.position, await self._consumer.position(self._partition)
        return self.position > before

    def _learn(self, records: list[Any]) -> None:
        decoded = decode_prices([(record.key, record.value) for record in records], self._currency)
        for record, price in zip(records, decoded, strict=True):
            if not is_time(record.timestamp):
                self._refuse(
                    record, f"its timestamp, {record.timestamp} ms, is outside the years 1970 to 9999", "invalid"
                )
                continue
            self.as_of = record.timestamp if self.as_of is None else max(self.as_of, record.timestamp)
            if isinstance(price, Rejected):
                self._refuse(record, price.error, price.reason)
                continue
            amount = None if isinstance(price, PriceRemoved) else price.price
            self.prices.add(price.profile, PriceRecord(record.timestamp, record.offset, amount))

    def _refuse(self, record: Any, error: str, reason: str) -> None:
        self.refused += 1
        log.warning("price at offset %d is ignored: %s (%s)", record.offset, error, reason)

    async def stop(self) -> None:
        """Disconnect."""
        if self._consumer is not None:
            await self._consumer.stop()
