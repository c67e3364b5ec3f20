"""Reads `croesus.prices`: every worker reads all of it before anything else, then follows it (contract, "In")."""

import logging
from collections.abc import Sequence
from typing import Final

from schemas.prices import PriceRemoved
from schemas.times import is_time
from streams.billing.prices import PriceRecord, Prices
from streams.engine.merge import Damage, Record, Unreadable
from streams.engine.ports import Admin, Clock, Reader
from streams.engine.transactions import UNDECIDED_S, open_transaction
from topics.catalogue import PRICES
from topics.codec import Rejected, decode_prices

_PROGRESS_S: Final = 1.0

log = logging.getLogger(__name__)


class PriceReader:
    """Keeps `prices` up to date.

    `position`: the offset up to which the topic was read. `as_of`: the greatest timestamp read, in ms; None before
    any. `refused`: how many bad records were ignored. `topic`: the full name.
    """

    def __init__(self, reader: Reader, admin: Admin, clock: Clock, currency: str, topic: str = PRICES.name) -> None:
        self.topic = topic
        self.prices = Prices()
        self.position = 0
        self.as_of: int | None = None
        self.refused = 0
        self._reader = reader
        self._admin = admin
        self._clock = clock
        self._currency = currency

    async def start(self) -> None:
        """Connect, and read all stored prices. Raises `KafkaError`.

        Waits for an open transaction, but not for ever: one that never ends would keep all workers from starting.
        """
        await self._reader.start()
        end = (await self._admin.end_offsets([(self.topic, 0)]))[self.topic, 0]
        await self._read_to(await self._reader.last_stable_offset())
        if self.position < end:
            await self._wait_for_transaction(end)
        log.info("prices of %d profiles are known", len(self.prices.history))

    async def _read_to(self, end: int) -> None:
        logged_s = self._clock.monotonic_s()
        while self.position < end:
            await self.read()
            if self._clock.monotonic_s() >= logged_s + _PROGRESS_S:
                log.info("reading prices: %d of %d", self.position, end)
                logged_s += _PROGRESS_S

    async def _wait_for_transaction(self, end: int) -> None:
        """Read up to `end`, before which a transaction is open. After `UNDECIDED_S`, continue without the rest."""
        until_s = self._clock.monotonic_s() + UNDECIDED_S
        logged = -1
        while (stable := min(end, await self._reader.last_stable_offset())) < end:
            await self._read_to(stable)
            if self._clock.monotonic_s() >= until_s:
                log.error("%s; starting without the prices there", open_transaction((self.topic, 0), stable))
                return
            if stable != logged:
                line = open_transaction((self.topic, 0), stable)
                log.warning("%s; waiting for it, for %d s at most", line, UNDECIDED_S)
                logged = stable
            await self._clock.sleep(_PROGRESS_S)
        await self._read_to(end)

    @property
    def damage(self) -> Damage | None:
        """Why the topic can't be read at the moment."""
        return self._reader.damage

    async def read(self) -> bool:
        """Read new records; returns whether the position has changed. Raises `KafkaError`."""
        records, position = await self._reader.read()
        self._apply(records)
        before, self.position = self.position, position
        return position > before

    def _apply(self, records: Sequence[Record]) -> None:
        decoded = decode_prices([(record.key, record.value) for record in records], self._currency)
        for record, price in zip(records, decoded, strict=True):
            if isinstance(record, Unreadable):
                self._refuse(record, record.error, record.reason)
                continue
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

    def _refuse(self, record: Record, error: str, reason: str) -> None:
        self.refused += 1
        log.warning("price at offset %d is ignored: %s (%s)", record.offset, error, reason)

    async def stop(self) -> None:
        """Disconnect."""
        await self._reader.stop()
