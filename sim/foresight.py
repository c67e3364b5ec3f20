"""The orders that the records of a log lead to, for logs that are written before any worker reads them."""

from collections.abc import Iterator
from typing import TypeAlias

from schemas.orders import ExecletOrder, HostOrder
from sim.records import Record
from streams.replay.driver import ShardDriver, Switches
from topics.catalogue import EXECLET_ORDERS, HEARTBEATS, HOST_ORDERS

Order: TypeAlias = ExecletOrder | HostOrder


class Foresight:
    """Applies Obol's rules to the records of a log, in order of time, and returns the orders that each leads to.

    Heartbeats are left out, which bounds time and memory: they lead to orders only for a replica that has ended (R6),
    and the stand-in execlets send none for those. `billing`: the worker's `DEDICATED_BILLING_ENABLED`.
    """

    def __init__(self, *, billing: bool = True) -> None:
        self._driver = ShardDriver(switches=Switches(billing_enabled=billing), check=False)

    def read(self, record: Record) -> Iterator[Order]:
        """Apply a record."""
        if record.topic != HEARTBEATS.name:
            self._driver.send(record.topic, record.value, record.timestamp_ms, record.key)
            yield from self._orders()

    def tick(self, now_ms: int) -> Iterator[Order]:
        """Apply a tick."""
        self._driver.tick(now_ms)
        yield from self._orders()

    def _orders(self) -> Iterator[Order]:
        self._driver.run()
        orders: list[Order] = [ExecletOrder(**order) for order in self._driver.values(EXECLET_ORDERS.name)]
        orders += [HostOrder(**order) for order in self._driver.values(HOST_ORDERS.name)]
        self._driver.log.forget_outputs()
        yield from orders
