"""Runs a log in a driver in arbitrary parts, with commits and crashes in between (B11)."""

from collections.abc import Sequence
from typing import NamedTuple

from hypothesis import strategies as st

from streams.replay.driver import ShardDriver
from tests.world.records import Record
from topics.catalogue import INBOUND, OUTBOUND, PRICES

RANKS = [spec.name for spec in INBOUND]


class Way(NamedTuple):
    """One part: how many records are written, fetched and applied, and what happens then."""

    arrive: int
    fetch: int
    apply: int
    then: str


WAYS = st.lists(
    st.builds(
        Way,
        st.integers(0, 20),
        st.integers(1, 10),
        st.integers(0, 12),
        st.sampled_from(["commit", "commit", "nothing", "crash", "crash in commit"]),
    ),
    max_size=30,
)


def in_order(record: Record) -> tuple[int, int]:
    """Return a record's sort key in the contract's order."""
    return record.timestamp, RANKS.index(record.topic)


def write(driver: ShardDriver, records: Sequence[Record]) -> None:
    """Write records to the log."""
    for each in records:
        if each.topic == "obol.clock":
            driver.tick(each.timestamp)
        else:
            driver.send(each.topic, each.value or None, each.timestamp, each.key.encode() or None)


def undisturbed(records: Sequence[Record]) -> ShardDriver:
    """Return a driver that has applied all records, written at once."""
    driver = ShardDriver()
    write(driver, records)
    driver.run()
    return driver


def disturbed(records: Sequence[Record], ways: Sequence[Way], max_run_records: int) -> ShardDriver:
    """Return a driver that has applied all records, in the parts `ways`."""
    driver = ShardDriver(max_run_records=max_run_records)
    # Prices are read to their end before anything else.
    write(driver, [each for each in records if each.topic == PRICES.name])
    rest = [each for each in records if each.topic != PRICES.name]
    for way in ways:
        now, rest = rest[: way.arrive], rest[way.arrive :]
        write(driver, now)
        driver.feed(way.fetch)
        driver.step(way.apply)
        match way.then:
            case "commit":
                driver.commit()
            case "crash":
                driver.crash()
            case "crash in commit":
                driver.crash_in_commit()
    write(driver, rest)
    driver.run()
    return driver


def written(driver: ShardDriver) -> dict[str, list[tuple[int, bytes | None, bytes | None]]]:
    """Return all outputs, by topic."""
    return {
        spec.name: [(each.timestamp, each.key, each.value) for each in driver.records(spec.name)] for spec in OUTBOUND
    }
