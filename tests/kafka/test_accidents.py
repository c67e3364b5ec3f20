"""Accidents of a cluster, with real workers: what a worker does, and how an operator recovers."""

from __future__ import annotations

import asyncio

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from streams.engine.fatal import EXIT_DAMAGED, EXIT_FAULT, EXIT_RETRY
from streams.engine.table import TABLES
from streams.settings import EXIT_WRONG_SETTING
from tests.support.accidents import (
    add_partitions,
    apply_commands,
    configure,
    count,
    delete,
    delete_records,
    last_line,
    obol,
    recreate,
    refused,
    results,
    stop_command,
    wait_for_results,
)
from tests.support.workers import Installation, Worker
from topics.catalogue import COMMANDS, HEARTBEATS, PRICES, RESULTS, TOPICS, USAGE

pytestmark = pytest.mark.kafka


# Row 4: an input that is not what it was


async def test_a_recreated_input_while_no_worker_runs_is_refused_until_it_is_accepted(
    kafka_bootstrap: str, namespace: str
) -> None:
    installation = Installation(kafka_bootstrap, namespace, partitions=1)
    await apply_commands(installation)
    await recreate(installation, COMMANDS.name)
    await installation.send([stop_command(installation, 10)])
    for _ in range(2):
        line = await refused(installation, EXIT_DAMAGED, "input reset", f"{namespace}.{COMMANDS.name} was deleted")
        assert "obol accept-reset user.commands" in line
    assert "c10" not in await results(installation)

    said = await asyncio.to_thread(obol, installation, "accept-reset", COMMANDS.name)
    assert "user.commands partition 0: applied up to offset 3, reading on from 0" in said
    assert "nothing to accept" in await asyncio.to_thread(obol, installation, "accept-reset", COMMANDS.name)
    with Worker(installation, "--without-web") as worker:
        await wait_for_results(installation, worker, {"c10"})
        await installation.send([stop_command(installation, 11)])
        await wait_for_results(installation, worker, {"c11"})
        assert await asyncio.to_thread(worker.stop) == 0
    assert await count(installation, "resets", COMMANDS.name) == 1
    assert await results(installation) == {"c0", "c1", "c2", "c10", "c11"}


async def test_a_recreated_input_while_a_worker_runs_ends_it(kafka_bootstrap: str, namespace: str) -> None:
    installation = Installation(kafka_bootstrap, namespace, partitions=2)
    await installation.provision()
    await installation.send([stop_command(installation, 1)])
    with Worker(installation, "--without-web") as worker:
        await wait_for_results(installation, worker, {"c1"})
        await recreate(installation, COMMANDS.name)
        assert await asyncio.to_thread(worker.wait) == EXIT_DAMAGED, worker.tail()
        last_line(worker, EXIT_DAMAGED, "input reset", COMMANDS.name, "accept-reset")
    await installation.send([stop_command(installation, 2)])
    await refused(installation, EXIT_DAMAGED, "input reset", COMMANDS.name)
    await asyncio.to_thread(obol, installation, "accept-reset", COMMANDS.name)
    with Worker(installation, "--without-web") as worker:
        await wait_for_results(installation, worker, {"c2"})
        assert await asyncio.to_thread(worker.stop) == 0


# Row 5: changelogs and prices


@pytest.mark.parametrize("table", ["answers", "positions"])
async def test_a_recreated_changelog_is_refused(kafka_bootstrap: str, namespace: str, table: str) -> None:
    installation = Installation(kafka_bootstrap, namespace, partitions=1)
    await apply_commands(installation)
    name = installation.changelog(table)
    assert await installation.read_changelog(table)
    await delete(installation, name)
    await refused(installation, EXIT_DAMAGED, "changelog damaged", name)


async def test_topics_that_would_lose_rows_or_prices_are_refused(kafka_bootstrap: str, namespace: str) -> None:
    installation = Installation(kafka_bootstrap, namespace, partitions=1)
    await apply_commands(installation)
    changelog, prices = installation.changelog("orgs"), installation.settings.topic(PRICES.name)
    await configure(installation, changelog, cleanup_policy="delete")
    await refused(installation, EXIT_WRONG_SETTING, changelog, "cleanup.policy=delete", "set cleanup.policy=compact")
    await configure(installation, changelog, cleanup_policy="compact")
    for entry, value in (("cleanup.policy", "compact"), ("retention.ms", "1000000"), ("retention.bytes", "1000000")):
        own = {"message.timestamp.type": "CreateTime", "retention.ms": "-1", entry: value}
        await configure(installation, prices, **own)
        await refused(installation, EXIT_WRONG_SETTING, prices, f"{entry}={value}")
    await configure(installation, prices, message_timestamp_type="CreateTime", retention_ms="-1")
    with Worker(installation, "--without-web") as worker:
        await asyncio.to_thread(worker.wait_for, "are active")


async def test_a_topic_that_is_reconfigured_while_a_worker_runs_ends_it(kafka_bootstrap: str, namespace: str) -> None:
    installation = Installation(kafka_bootstrap, namespace, partitions=1)
    await installation.provision()
    with Worker(installation, "--without-web") as worker:
        await asyncio.to_thread(worker.wait_for, "are active")
        changelog = installation.changelog("orgs")
        await configure(installation, changelog, cleanup_policy="delete")
        assert await asyncio.to_thread(worker.wait) == EXIT_WRONG_SETTING, worker.tail()
        last_line(worker, EXIT_WRONG_SETTING, "wrong setting", changelog, "set cleanup.policy=compact")


# Rows 1 and 10: another installation


def all_topics(installation: Installation) -> list[str]:
    names = [installation.settings.topic(topic) for topic in TOPICS if topic != PRICES.name]
    return names + [installation.changelog(table) for table in TABLES]


async def test_another_number_of_partitions_is_refused_however_it_came_about(
    kafka_bootstrap: str, namespace: str
) -> None:
    installation = Installation(kafka_bootstrap, namespace, partitions=2)
    await apply_commands(installation)
    heartbeats, usage = map(installation.settings.topic, (HEARTBEATS.name, USAGE.name))
    await add_partitions(installation, 4, usage)
    await refused(installation, EXIT_WRONG_SETTING, f"{usage} has 4 partitions", "create it again with 2 partitions")
    await add_partitions(installation, 4, heartbeats)
    await refused(installation, EXIT_WRONG_SETTING, f"{heartbeats} has 4 partitions, but the rows are kept under 2")
    await refused(installation, EXIT_WRONG_SETTING, "set OBOL_PARTITIONS=2", OBOL_PARTITIONS="4")
    await add_partitions(
        installation, 4, *(name for name in all_topics(installation) if name not in (heartbeats, usage))
    )
    await refused(
        installation,
        EXIT_WRONG_SETTING,
        "OBOL_PARTITIONS is 4, but the rows of partition",
        "made under 2",
        OBOL_PARTITIONS="4",
    )


async def test_partitions_that_appear_while_a_worker_runs_end_it(kafka_bootstrap: str, namespace: str) -> None:
    installation = Installation(kafka_bootstrap, namespace, partitions=2)
    await installation.provision()
    with Worker(installation, "--without-web") as worker:
        await asyncio.to_thread(worker.wait_for, "are active")
        await add_partitions(installation, 3, installation.settings.topic(HEARTBEATS.name))
        assert await asyncio.to_thread(worker.wait) == EXIT_WRONG_SETTING, worker.tail()
        last_line(worker, EXIT_WRONG_SETTING, "partitions changed", "has 3 partitions, but the rows are kept under 2")


async def test_another_currency_or_time_than_the_rows_is_refused(kafka_bootstrap: str, namespace: str) -> None:
    installation = Installation(kafka_bootstrap, namespace, partitions=1)
    await apply_commands(installation)
    await refused(installation, EXIT_WRONG_SETTING, "set OBOL_CURRENCY=JPY", OBOL_CURRENCY="USD")


async def test_workers_that_disagree_are_reported(kafka_bootstrap: str, namespace: str) -> None:
    installation = Installation(kafka_bootstrap, namespace, partitions=2, environ={"OBOL_CLOCK": "wall"})
    await installation.provision()
    with Worker(installation, "--without-web") as first, Worker(installation, OBOL_RETENTION_H="24") as second:
        for worker in (first, second):
            await asyncio.to_thread(worker.wait_for, "OBOL_RETENTION_H is")
        assert "workers disagree: OBOL_RETENTION_H is 24 at" in first.tail(200)
        assert "workers disagree: OBOL_RETENTION_H is 168 at" in second.tail(200)


# Other accidents


async def test_an_input_that_is_compacted_is_refused(kafka_bootstrap: str, namespace: str) -> None:
    installation = Installation(kafka_bootstrap, namespace, partitions=1)
    await installation.provision()
    name = installation.settings.topic(HEARTBEATS.name)
    await configure(installation, name, cleanup_policy="compact", message_timestamp_type="CreateTime")
    await refused(installation, EXIT_WRONG_SETTING, f"{name} has cleanup.policy=compact")


async def test_records_deleted_before_they_were_read_are_counted(kafka_bootstrap: str, namespace: str) -> None:
    installation = Installation(kafka_bootstrap, namespace, partitions=1)
    await apply_commands(installation)
    await installation.send(stop_command(installation, number) for number in range(10, 15))
    commands = installation.settings.topic(COMMANDS.name)
    await delete_records(installation, commands, 6)
    with Worker(installation, "--without-web") as worker:
        await wait_for_results(installation, worker, {"c13", "c14"})
        assert "user.commands partition 0: the records from offset 3 to 5 were deleted" in worker.tail(200)
        assert await asyncio.to_thread(worker.stop) == 0
    assert await count(installation, "lost", COMMANDS.name) == 3
    assert not {"c10", "c11", "c12"} & await results(installation)


async def test_the_first_rows_of_a_changelog_deleted_while_a_worker_runs_end_it(
    kafka_bootstrap: str, namespace: str
) -> None:
    installation = Installation(kafka_bootstrap, namespace, partitions=1)
    await apply_commands(installation)
    with Worker(installation, "--without-web") as worker:
        await asyncio.to_thread(worker.wait_for, "are active")
        # The broker deletes no records of a topic that is only compacted; an operator's mistake may make it so.
        await configure(installation, installation.changelog("answers"), cleanup_policy="delete")
        await delete_records(installation, installation.changelog("answers"), 1)
        await configure(installation, installation.changelog("answers"), cleanup_policy="compact")
        assert await asyncio.to_thread(worker.wait) == EXIT_DAMAGED, worker.tail()
        last_line(worker, EXIT_DAMAGED, "changelog damaged", "obol-answers-changelog partition 0 begins at 1")
    await refused(installation, EXIT_DAMAGED, "changelog damaged", "begins at 1")


@pytest.mark.parametrize("offset", [1, 4])
async def test_committed_offsets_that_were_set_by_hand_change_nothing(
    kafka_bootstrap: str, namespace: str, offset: int
) -> None:
    installation = Installation(kafka_bootstrap, namespace, partitions=1)
    await apply_commands(installation)
    commands = TopicPartition(installation.settings.topic(COMMANDS.name), 0)
    other = AIOKafkaConsumer(
        bootstrap_servers=kafka_bootstrap, group_id=installation.settings.app_id, enable_auto_commit=False
    )
    await other.start()
    other.assign([commands])
    await installation.send([stop_command(installation, 10)])
    # Before what was applied, and after what was not.
    await other.commit({commands: offset})
    await other.stop()
    with Worker(installation, "--without-web") as worker:
        await wait_for_results(installation, worker, {"c10"})
        assert await asyncio.to_thread(worker.stop) == 0
    assert len(await installation.read(RESULTS.name)) == 4


async def test_another_writer_in_a_changelog_ends_the_worker(kafka_bootstrap: str, namespace: str) -> None:
    installation = Installation(kafka_bootstrap, namespace, partitions=1)
    await installation.provision()
    with Worker(installation, "--without-web") as worker:
        await asyncio.to_thread(worker.wait_for, "are active")
        producer = AIOKafkaProducer(bootstrap_servers=kafka_bootstrap)
        await producer.start()
        await producer.send_and_wait(installation.changelog("answers"), b"[]", key=b"acme/x", partition=0)
        await producer.stop()
        await installation.send([stop_command(installation, 1)])
        assert await asyncio.to_thread(worker.wait) == EXIT_RETRY, worker.tail()
        last_line(worker, EXIT_RETRY, "foreign records", installation.changelog("answers"))
    # The next one aborts what that left, so that there is no result; and finds what the other writer wrote.
    await refused(installation, EXIT_FAULT, "unreadable row", "'acme/x' of answers, partition 0, can't be restored")
    assert await results(installation) == set()
