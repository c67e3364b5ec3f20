"""Accidents of a cluster, with real workers: what a worker does, and how an operator recovers."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import for_code

from streams.engine.fatal import EXIT_DAMAGED, EXIT_RETRY
from streams.engine.position import decode_position
from streams.engine.table import TABLES
from streams.settings import EXIT_WRONG_SETTING
from tests.support.workers import DEADLINE_S, Installation, Sent, Worker
from tools.console import ROOT
from tools.kafka_server import KafkaServer
from tools.leftovers import session_folder
from tools.server import free_ports
from topics.catalogue import COMMANDS, HEARTBEATS, PRICES, RESULTS, TOPICS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.kafka

AWAY_S = 100.0


def stop_command(installation: Installation, number: int, org_id: str = "acme") -> Sent:
    """A command that is always answered: there is no such instance."""
    value = {"command_id": f"c{number}", "org_id": org_id, "type": "stop_instance", "instance_id": "none"}
    at_ms = int(time.time() * 1_000) - 60_000 + number
    return Sent(COMMANDS.name, at_ms, org_id.encode(), json.dumps(value).encode(), installation.place("", org_id))


@asynccontextmanager
async def admin_of(installation: Installation) -> AsyncIterator[AIOKafkaAdminClient]:
    admin = AIOKafkaAdminClient(bootstrap_servers=installation.bootstrap)
    await admin.start()
    try:
        yield admin
    finally:
        await admin.close()


async def delete(installation: Installation, name: str) -> None:
    async with admin_of(installation) as admin:
        await admin.delete_topics([name])
        async with asyncio.timeout(DEADLINE_S):
            while name in await admin.list_topics():  # noqa: ASYNC110 - it is on a broker
                await asyncio.sleep(0.05)


async def create(installation: Installation, name: str, partitions: int, **config: str) -> None:
    async with admin_of(installation) as admin:
        response = await admin.create_topics([NewTopic(name, partitions, 1, topic_configs=config)])
        (created,) = response.to_object()["topic_errors"]
        assert created["error_code"] == 0, for_code(created["error_code"])


async def make_again(installation: Installation, topic: str) -> None:
    """Delete an input, and make it again as a worker would."""
    await delete(installation, installation.settings.topic(topic))
    await installation.provision()


async def configure(installation: Installation, name: str, **config: str) -> None:
    entries = {key.replace("_", "."): value for key, value in config.items()}
    async with admin_of(installation) as admin:
        await admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, name, entries)])


async def results(installation: Installation) -> set[str]:
    return {json.loads(record.value or b"")["command_id"] for record in await installation.read(RESULTS.name)}


async def until_answered(installation: Installation, worker: Worker, commands: set[str]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not commands <= await results(installation):
            worker.check()
            await asyncio.sleep(0.1)


async def worked(installation: Installation, commands: int = 3) -> None:
    """Have a worker answer some commands, and stop."""
    await installation.provision()
    await installation.send(stop_command(installation, number) for number in range(commands))
    with Worker(installation, "--without-web") as worker:
        await until_answered(installation, worker, {f"c{number}" for number in range(commands)})
        assert await asyncio.to_thread(worker.stop) == 0


async def refused(installation: Installation, code: int, *words: str, **environ: str) -> str:
    """Start a worker that ends by itself; its last line."""
    with Worker(installation, "--without-web", **environ) as worker:
        assert await asyncio.to_thread(worker.wait) == code, worker.tail()
        return last_line(worker, code, *words)


def last_line(worker: Worker, code: int, *words: str) -> str:
    (line,) = [line for line in worker.tail(400).splitlines() if f"exit code {code}" in line]
    for word in words:
        assert word in line
    assert "Traceback" not in worker.tail(400)
    return line


def obol(installation: Installation, *arguments: str) -> str:
    ended = subprocess.run(
        [sys.executable, "-m", "streams.cli", *arguments],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], **installation.environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE_S,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


async def count(installation: Installation, kind: str, topic: str) -> int:
    latest = {record.partition: record.value or b"" for record in await installation.read_changelog("positions")}
    return sum(decode_position(value).count(kind, topic) for value in latest.values())


# Row 4: an input that is not what it was


async def test_an_input_made_again_while_no_worker_runs_is_refused_until_it_is_accepted(
    kafka_bootstrap: str, namespace: str
) -> None:
    installation = Installation(kafka_bootstrap, namespace, partitions=1)
    await worked(installation)
    await make_again(installation, COMMANDS.name)
    await installation.send([stop_command(installation, 10)])
    for _ in range(2):
        line = await refused(installation, EXIT_DAMAGED, "input reset", f"{namespace}.{COMMANDS.name} was deleted")
        assert "obol accept-reset user.commands" in line
    assert "c10" not in await results(installation)

    said = await asyncio.to_thread(obol, installation, "accept-reset", COMMANDS.name)
    assert "user.commands partition 0: applied up to offset 3, reading on from 0" in said
    assert "nothing to accept" in await asyncio.to_thread(obol, installation, "accept-reset", COMMANDS.name)
    with Worker(installation, "--without-web") as worker:
        await until_answered(installation, worker, {"c10"})
        await installation.send([stop_command(installation, 11)])
        await until_answered(installation, worker, {"c11"})
        assert await asyncio.to_thread(worker.stop) == 0
    assert await count(installation, "resets", COMMANDS.name) == 1
    assert await results(installation) == {"c0", "c1", "c2", "c10", "c11"}


async def test_an_input_made_again_while_a_worker_runs_ends_it(kafka_bootstrap: str, namespace: str) -> None:
    installation = Installation(kafka_bootstrap, namespace, partitions=2)
    await installation.provision()
    await installation.send([stop_command(installation, 1)])
    with Worker(installation, "--without-web") as worker:
        await until_answered(installation, worker, {"c1"})
        await make_again(installation, COMMANDS.name)
        assert await asyncio.to_thread(worker.wait) == EXIT_DAMAGED, worker.tail()
        last_line(worker, EXIT_DAMAGED, "input reset", COMMANDS.name, "accept-reset")
    await installation.send([stop_command(installation, 2)])
    await refused(installation, EXIT_DAMAGED, "input reset", COMMANDS.name)
    await asyncio.to_thread(obol, installation, "accept-reset", COMMANDS.name)
    with Worker(installation, "--without-web") as worker:
        await until_answered(installation, worker, {"c2"})
        assert await asyncio.to_thread(worker.stop) == 0


# Row 5: changelogs and prices


@pytest.mark.parametrize("table", ["answers", "positions"])
async def test_a_changelog_made_again_is_refused(kafka_bootstrap: str, namespace: str, table: str) -> None:
    installation = Installation(kafka_bootstrap, namespace, partitions=1)
    await worked(installation)
    name = installation.changelog(table)
    assert await installation.read_changelog(table)
    await delete(installation, name)
    await refused(installation, EXIT_DAMAGED, "changelog damaged", name)


async def test_topics_that_would_lose_rows_or_prices_are_refused(kafka_bootstrap: str, namespace: str) -> None:
    installation = Installation(kafka_bootstrap, namespace, partitions=1)
    await worked(installation)
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


# Rows 1 and 10: another installation


async def grow(installation: Installation, partitions: int, *names: str) -> None:
    async with admin_of(installation) as admin:
        response = await admin.create_partitions({name: NewPartitions(partitions) for name in names})
        assert [error for _, error, _ in response.topic_errors] == [0] * len(names)


def all_topics(installation: Installation) -> list[str]:
    names = [installation.settings.topic(topic) for topic in TOPICS if topic != PRICES.name]
    return names + [installation.changelog(table) for table in TABLES]


async def test_another_number_of_partitions_is_refused_however_it_came_about(
    kafka_bootstrap: str, namespace: str
) -> None:
    installation = Installation(kafka_bootstrap, namespace, partitions=2)
    await worked(installation)
    heartbeats = installation.settings.topic(HEARTBEATS.name)
    await grow(installation, 4, heartbeats)
    await refused(installation, EXIT_WRONG_SETTING, f"{heartbeats} has 4 partitions, but the rows are kept under 2")
    await refused(installation, EXIT_WRONG_SETTING, "set OBOL_PARTITIONS=2", OBOL_PARTITIONS="4")
    await grow(installation, 4, *(name for name in all_topics(installation) if name != heartbeats))
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
        await grow(installation, 3, installation.settings.topic(HEARTBEATS.name))
        assert await asyncio.to_thread(worker.wait) == EXIT_WRONG_SETTING, worker.tail()
        last_line(worker, EXIT_WRONG_SETTING, "partitions changed", "has 3 partitions, but the rows are kept under 2")


async def test_another_currency_or_time_than_the_rows_is_refused(kafka_bootstrap: str, namespace: str) -> None:
    installation = Installation(kafka_bootstrap, namespace, partitions=1)
    await worked(installation)
    await refused(installation, EXIT_WRONG_SETTING, "set OBOL_CURRENCY=JPY", OBOL_CURRENCY="USD")


async def test_workers_that_disagree_are_told(kafka_bootstrap: str, namespace: str) -> None:
    installation = Installation(kafka_bootstrap, namespace, partitions=2, environ={"OBOL_CLOCK": "wall"})
    await installation.provision()
    with Worker(installation, "--without-web") as first, Worker(installation, OBOL_RETENTION_H="24") as second:
        for worker in (first, second):
            await asyncio.to_thread(worker.wait_for, "OBOL_RETENTION_H is")
        assert "workers disagree: OBOL_RETENTION_H is 24 at" in first.tail(200)
        assert "workers disagree: OBOL_RETENTION_H is 168 at" in second.tail(200)


# Row 16: a topic that refuses records


async def test_a_topic_that_refuses_records_stops_its_partition_alone_until_it_takes_them(
    kafka_bootstrap: str, namespace: str
) -> None:
    installation = Installation(kafka_bootstrap, namespace, partitions=2)
    await installation.provision()
    orgs = {installation.place("", org_id): org_id for org_id in map("org-{}".format, range(20))}
    name = installation.settings.topic(RESULTS.name)
    with Worker(installation, "--without-web") as worker:
        await asyncio.to_thread(worker.wait_for, "are active")
        await configure(installation, name, max_message_bytes="10000", message_timestamp_type="CreateTime")
        many = [stop_command(installation, number, orgs[0]) for number in range(200)]
        await installation.send(many, transactional_id=f"{namespace}-test")
        await asyncio.to_thread(worker.wait_for, "partition 0 can't be committed: topic " + name)
        assert "MessageSizeTooLargeError); raise its max.message.bytes" in worker.tail(200)
        await installation.send([stop_command(installation, 900, orgs[1])])
        await until_answered(installation, worker, {"c900"})
        assert "c0" not in await results(installation)
        await configure(installation, name, max_message_bytes="1048588", message_timestamp_type="CreateTime")
        await until_answered(installation, worker, {f"c{number}" for number in range(200)})
        await asyncio.to_thread(worker.wait_for, "partition 0 is committed again")
        # And it goes on, by the same producer.
        await installation.send([stop_command(installation, 901, orgs[0])])
        await until_answered(installation, worker, {"c901"})
        assert await asyncio.to_thread(worker.stop) == 0
    assert len(await installation.read(RESULTS.name)) == 202
    await worked_on(installation)


async def worked_on(installation: Installation) -> None:
    """Run a worker that starts without an error and has no lag."""
    with Worker(installation, "--without-web") as worker:
        await asyncio.to_thread(worker.wait_for, "are active")
        await installation.wait_until_caught_up([worker])
        assert await asyncio.to_thread(worker.stop) == 0


# Rows 12 and 17: a cluster, and a group, that is away


def test_a_cluster_that_is_away_at_start_is_tried_again_later(namespace: str) -> None:
    installation = Installation(f"127.0.0.1:{free_ports(1)}", namespace, partitions=1)
    with Worker(installation, "--without-web") as worker:
        assert worker.wait(120.0) == EXIT_RETRY, worker.tail()
        last_line(worker, EXIT_RETRY, "cluster unreachable: the cluster can't be reached after 60 s")


async def test_a_cluster_that_is_away_while_a_worker_runs_is_waited_for(namespace: str) -> None:
    server = KafkaServer(session_folder() / "away", free_ports(KafkaServer.neighbouring_ports))
    await asyncio.to_thread(server.start)
    try:
        installation = Installation(KafkaServer.address(server.port), namespace, 2, environ={"OBOL_CLOCK": "wall"})
        await installation.provision()
        with Worker(installation, "--without-web") as worker:
            await asyncio.to_thread(worker.wait_for, "are active")
            await installation.send([stop_command(installation, 1)])
            await until_answered(installation, worker, {"c1"})
            await asyncio.to_thread(server.stop)
            await asyncio.to_thread(worker.wait_for, "the cluster has not answered")
            # Longer than any request or session timeout of the clients.
            await asyncio.sleep(AWAY_S)
            worker.check()
            await asyncio.to_thread(server.start)
            await asyncio.to_thread(worker.wait_for, "the cluster answers again")
            await installation.send([stop_command(installation, 2)])
            await until_answered(installation, worker, {"c1", "c2"})
            assert await asyncio.to_thread(worker.stop) == 0
    finally:
        await asyncio.to_thread(server.remove)


async def test_a_group_that_can_not_be_joined_ends_the_worker(kafka_bootstrap: str, namespace: str) -> None:
    """Another program uses the group's name, with an assignor that is not Obol's."""
    installation = Installation(kafka_bootstrap, namespace, partitions=1)
    await installation.provision()
    other = AIOKafkaConsumer(
        installation.settings.topic(RESULTS.name),
        bootstrap_servers=kafka_bootstrap,
        group_id=installation.settings.app_id,
    )
    await other.start()
    try:
        line = await refused(installation, EXIT_RETRY)
        assert "InconsistentGroupProtocolError" in line
    finally:
        await other.stop()


# Other accidents


async def test_an_input_that_is_compacted_is_refused(kafka_bootstrap: str, namespace: str) -> None:
    installation = Installation(kafka_bootstrap, namespace, partitions=1)
    await installation.provision()
    name = installation.settings.topic(HEARTBEATS.name)
    await configure(installation, name, cleanup_policy="compact", message_timestamp_type="CreateTime")
    await refused(installation, EXIT_WRONG_SETTING, f"{name} has cleanup.policy=compact")


async def test_records_deleted_before_they_were_read_are_counted(kafka_bootstrap: str, namespace: str) -> None:
    installation = Installation(kafka_bootstrap, namespace, partitions=1)
    await worked(installation)
    await installation.send(stop_command(installation, number) for number in range(10, 15))
    commands = installation.settings.topic(COMMANDS.name)
    await delete_records(installation, commands, 6)
    with Worker(installation, "--without-web") as worker:
        await until_answered(installation, worker, {"c13", "c14"})
        assert "user.commands partition 0: the records from offset 3 to 5 were deleted" in worker.tail(200)
        assert await asyncio.to_thread(worker.stop) == 0
    assert await count(installation, "lost", COMMANDS.name) == 3
    assert not {"c10", "c11", "c12"} & await results(installation)


async def test_the_first_rows_of_a_changelog_deleted_while_a_worker_runs_end_it(
    kafka_bootstrap: str, namespace: str
) -> None:
    installation = Installation(kafka_bootstrap, namespace, partitions=1)
    await worked(installation)
    with Worker(installation, "--without-web") as worker:
        await asyncio.to_thread(worker.wait_for, "are active")
        await delete_records(installation, installation.changelog("answers"), 1)
        assert await asyncio.to_thread(worker.wait) == EXIT_DAMAGED, worker.tail()
        last_line(worker, EXIT_DAMAGED, "changelog damaged", "obol-answers-changelog partition 0 begins at 1")
    await refused(installation, EXIT_DAMAGED, "changelog damaged", "begins at 1")


async def test_committed_offsets_that_were_reset_change_nothing(kafka_bootstrap: str, namespace: str) -> None:
    installation = Installation(kafka_bootstrap, namespace, partitions=1)
    await worked(installation)
    commands = TopicPartition(installation.settings.topic(COMMANDS.name), 0)
    other = AIOKafkaConsumer(
        bootstrap_servers=kafka_bootstrap, group_id=installation.settings.app_id, enable_auto_commit=False
    )
    await other.start()
    other.assign([commands])
    await other.commit({commands: 1})
    await other.stop()
    await installation.send([stop_command(installation, 10)])
    with Worker(installation, "--without-web") as worker:
        await until_answered(installation, worker, {"c10"})
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
    assert await results(installation) == set()


async def test_an_output_deleted_while_a_worker_runs_is_waited_for(kafka_bootstrap: str, namespace: str) -> None:
    installation = Installation(kafka_bootstrap, namespace, partitions=1)
    await installation.provision()
    with Worker(installation, "--without-web") as worker:
        await asyncio.to_thread(worker.wait_for, "are active")
        await delete(installation, installation.settings.topic(RESULTS.name))
        await installation.send([stop_command(installation, 1)])
        await asyncio.to_thread(worker.wait_for, "waiting for the commit of partition 0, for 360 s at most")
        await installation.provision()
        await until_answered(installation, worker, {"c1"})
        assert await asyncio.to_thread(worker.stop) == 0


async def test_too_few_replicas_in_sync_are_waited_for(kafka_bootstrap: str, namespace: str) -> None:
    installation = Installation(kafka_bootstrap, namespace, partitions=1)
    await installation.provision()
    name = installation.settings.topic(RESULTS.name)
    own = {"message_timestamp_type": "CreateTime"}
    with Worker(installation, "--without-web") as worker:
        await asyncio.to_thread(worker.wait_for, "are active")
        await configure(installation, name, min_insync_replicas="2", **own)
        await installation.send([stop_command(installation, 1)])
        await asyncio.to_thread(worker.wait_for, "waiting for the commit of partition 0")
        await configure(installation, name, min_insync_replicas="1", **own)
        await until_answered(installation, worker, {"c1"})
        assert await asyncio.to_thread(worker.stop) == 0
    assert len(await installation.read(RESULTS.name)) == 1


async def delete_records(installation: Installation, name: str, before: int) -> None:
    async with admin_of(installation) as admin:
        await admin.delete_records({TopicPartition(name, 0): RecordsToDelete(before_offset=before)})
