"""B11 in one process: crashes and fetches of any size do not change the output, byte for byte."""

from __future__ import annotations

from functools import cache
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from sim.fleet import timeline
from streams.engine.rowcodec import encode_row
from streams.replay.driver import LogRecord, ShardDriver
from streams.rules.rows import ROW_TYPES
from topics.catalogue import OUTBOUND

T0 = 1_764_417_600_000
PARTITIONS = 2


@cache
def fleet() -> tuple[tuple[str, bytes | None, int, str | None, int | None], ...]:
    """A quarter of an hour of a small fleet, with records that come twice and records that come late."""
    log = timeline(5, 3, 12, T0, 0.25, instances=4, partitions=PARTITIONS, duplicates=0.1, late=0.05)
    return tuple((record.topic, record.value, record.timestamp_ms, record.key, record.partition) for record in log)


def new_driver() -> ShardDriver:
    driver = ShardDriver(partitions=PARTITIONS, max_run_records=7)
    for topic, value, at_ms, key, partition in fleet():
        driver.send(topic, value, at_ms, key, partition)
    return driver


def outcome(driver: ShardDriver) -> dict[str, list[LogRecord]]:
    return {spec.name: driver.records(spec.name) for spec in OUTBOUND}


@cache
def undisturbed() -> dict[str, list[LogRecord]]:
    driver = new_driver()
    driver.run()
    return outcome(driver)


def queued(driver: ShardDriver) -> bool:
    return any(queue.size for shard in driver.shards.values() for queue in shard.merge.queues.values())


def run_roughly(driver: ShardDriver, rng: Random) -> int:
    """Feed, apply, commit and crash in any order until all is done; how many crashes there were."""
    crashes = 0
    while driver.feed(rng.randint(1, 40)) or queued(driver):
        match rng.randrange(10):
            case 0:
                driver.crash()
                crashes += 1
            case 1:
                driver.crash_in_commit()
                crashes += 1
            case 2 | 3:
                driver.commit([rng.randrange(PARTITIONS)])
            case 4:
                driver.commit()
            case _:
                driver.step(rng.randint(1, 60))
    driver.commit()
    return crashes


def test_the_fleet_has_every_kind_of_output() -> None:
    found = undisturbed()
    assert len(found["croesus.usage"]) > 100
    assert all(
        found[spec.name] for spec in OUTBOUND if spec.name not in {"dead.letters", "croesus.credits", "org.notices"}
    )


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_crashes_and_batching_do_not_change_the_output(seed: int) -> None:
    driver = new_driver()
    run_roughly(driver, Random(seed))
    driver.run()
    assert outcome(driver) == undisturbed()


def test_counts_are_exact_after_crashes() -> None:
    calm, rough = new_driver(), new_driver()
    calm.run()
    assert run_roughly(rough, Random(1)) > 5
    rough.run()
    for partition in range(PARTITIONS):
        assert rough.position(partition).counts == calm.position(partition).counts
        assert rough.position(partition).as_of == calm.position(partition).as_of


def rows_in_memory(driver: ShardDriver) -> dict[tuple[str, str, str], Any]:
    """Every row as its changelog would have it, and the indexes of each org."""
    found: dict[tuple[str, str, str], Any] = {}
    for partition in range(PARTITIONS):
        for org_id, rows in driver.store(partition).orgs.items():
            found[org_id, "indexes", ""] = rows.derived()
            for table in (row_type.TABLE for row_type in ROW_TYPES):
                for row_id, row in rows.table(table).items():
                    found[org_id, table, row_id] = row if isinstance(row, int) else encode_row(row)
    return found


def test_rows_are_the_same_after_a_crash() -> None:
    driver, tables = new_driver(), set()
    while driver.feed(3):
        while driver.step(100):
            pass
        driver.commit()
        before = rows_in_memory(driver)
        driver.crash()
        assert rows_in_memory(driver) == before
        tables |= {table for _, table, _ in before}
    assert tables >= {"orgs", "deployments", "replicas", "instances", "windows", "events", "answers", "day_usage"}
