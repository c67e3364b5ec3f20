"""Runs a log in the in-process driver, and compares the output of real workers with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streams.replay.driver import ShardDriver
from topics.catalogue import OUTBOUND

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.support.workers import Installation, Sent


def reference_driver(records: Iterable[Sent], partitions: int) -> ShardDriver:
    """Return a driver that has applied all records."""
    driver = ShardDriver(partitions=partitions)
    for topic, at_ms, key, value, partition in records:
        driver.send(topic, value, at_ms, key, partition)
    driver.run()
    return driver


async def check_published(installation: Installation, driver: ShardDriver) -> None:
    """Check that the outbound topics have exactly the records of the driver."""
    for spec in OUTBOUND:
        published = await installation.read(spec.name)
        found = sorted((r.partition, r.timestamp, r.key or b"", r.value) for r in published)
        expected = sorted((r.partition, r.timestamp, r.key or b"", r.value) for r in driver.records(spec.name))
        assert found == expected, spec.name
