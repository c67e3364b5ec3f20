"""The stand-ins on a real broker: the partitions of their records, what they read, and what the commands print."""

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from schemas.usage import Usage
from sim.kafka import Installation, Link, NotCommittedError, link
from sim.records import heartbeat, price, tick
from sim.stage import Output
from topics.catalogue import CLOCK, HEARTBEATS, INBOUND, PRICES, USAGE
from topics.codec import encode
from topics.partitioner import partition_of
from topics.provision import provision

pytestmark = pytest.mark.kafka

NOON = 1_764_417_600_000  # 2025-11-29T12:00:00Z
PARTITIONS = 3
COMMAND_DEADLINE_S = 60


@pytest.fixture
async def installation(kafka_bootstrap: str, namespace: str) -> Installation:
    made = Installation(
        bootstrap_servers=kafka_bootstrap, namespace=namespace, partitions=PARTITIONS, timestamps="producer"
    )
    await provision(made)
    return made


@pytest.fixture
async def kafka(installation: Installation) -> AsyncIterator[Link]:
    async with link(installation, (USAGE, HEARTBEATS)) as both:
        yield both


def usage(duration_ms: int = 60_000, org: str = "aurora") -> bytes:
    return encode(
        Usage(
            id="chat-r1:2025-11-29T12:00:00.000Z",
            type="dedicated_inference_running",
            org_id=org,
            deployment_id="chat",
            replica_id="chat-r1",
            window_id="chat-r1.w1",
            profile="dedicated.h100.1x",
            quantity=1,
            interval_start="2025-11-29T12:00:00.000Z",
            interval_end="2025-11-29T12:01:00.000Z",
            duration_ms=duration_ms,
        )
    )


async def test_a_record_lands_in_its_orgs_partition_with_its_key_and_time(kafka: Link) -> None:
    orgs = [f"org-{n}" for n in range(12)]
    last = await kafka.publisher.send(heartbeat(NOON + n, org, "chat-r1") for n, org in enumerate(orgs))
    assert {place.partition for place in last} == {partition_of(org, PARTITIONS) for org in orgs}
    outputs = await kafka.listener.read_to_end()
    assert [(one.topic, one.timestamp_ms, one.key) for one in outputs] == [
        ("execlet.heartbeats", NOON + n, org) for n, org in enumerate(orgs)
    ]
    assert await kafka.listener.read_to_end() == []
    assert kafka.publisher.sent == kafka.listener.received == 12


async def test_only_committed_records_are_read(installation: Installation, kafka: Link) -> None:
    topic = installation.topic(USAGE.name)
    producer = AIOKafkaProducer(bootstrap_servers=installation.bootstrap_servers, transactional_id=topic)
    await producer.start()
    try:
        await producer.begin_transaction()
        await producer.send_and_wait(topic, b"aborted", partition=0, timestamp_ms=NOON)
        await producer.abort_transaction()
        assert await kafka.listener.read_to_end() == []
        await producer.begin_transaction()
        await producer.send_and_wait(topic, b"committed", partition=0, timestamp_ms=NOON)
        # The read waits for records that are written but not committed yet.
        reading = asyncio.create_task(kafka.listener.read_to_end())
        done, _ = await asyncio.wait({reading}, timeout=0.3)
        assert not done
        await producer.commit_transaction()
        assert await asyncio.wait_for(reading, 10) == [Output("croesus.usage", NOON, b"committed")]
    finally:
        await producer.stop()


async def test_waiting_for_the_commit_of_obols_group(installation: Installation, kafka: Link) -> None:
    offsets = await kafka.publisher.send(tick(NOON, partition) for partition in range(PARTITIONS))
    topic = installation.topic(CLOCK.name)
    assert offsets == {TopicPartition(topic, partition): 0 for partition in range(PARTITIONS)}
    with pytest.raises(
        NotCommittedError, match=rf"{re.escape(installation.group)} has not committed {re.escape(topic)}\[0\] up to "
    ):
        await kafka.listener.wait_until_committed(offsets, 0.1)
    worker = AIOKafkaConsumer(
        bootstrap_servers=installation.bootstrap_servers, group_id=installation.group, enable_auto_commit=False
    )
    await worker.start()
    try:
        worker.assign(list(offsets))
        await worker.commit(dict.fromkeys(offsets, 0))
        with pytest.raises(NotCommittedError, match="3 partitions are behind"):
            await kafka.listener.wait_until_committed(offsets, 0.1)
        await worker.commit(dict.fromkeys(offsets, 1))
        await kafka.listener.wait_until_committed(offsets, 10)
    finally:
        await worker.stop()


def sim(installation: Installation, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "sim", *arguments],
        env={
            **os.environ,
            "KAFKA_BOOTSTRAP_SERVERS": installation.bootstrap_servers,
            "OBOL_NAMESPACE": installation.namespace or "",
            "OBOL_PARTITIONS": str(installation.partitions),
            "OBOL_TIMESTAMPS": installation.timestamps,
            "COLUMNS": "160",
        },
        capture_output=True,
        text=True,
        timeout=COMMAND_DEADLINE_S,
        check=False,
    )


async def bill(installation: Installation, kafka: Link, *values: bytes) -> subprocess.CompletedProcess[str]:
    await kafka.publisher.send([price(NOON - 60_000, "dedicated.h100.1x", "420")])
    producer = AIOKafkaProducer(bootstrap_servers=installation.bootstrap_servers)
    await producer.start()
    try:
        for value in values:
            await producer.send_and_wait(installation.topic(USAGE.name), value, partition=0, timestamp_ms=NOON)
    finally:
        await producer.stop()
    return await asyncio.to_thread(sim, installation, "croesus", "--once")


async def test_croesus_bills_what_was_sent_and_drops_what_came_twice(installation: Installation, kafka: Link) -> None:
    ended = await bill(installation, kafka, usage(), usage(), usage(30_000, org="borealis"))
    assert ended.returncode == 0, ended.stderr
    rows = {line.split()[0]: line.split()[1:] for line in ended.stdout.splitlines() if line.split()}
    assert rows["aurora"] == ["1.00", "1", "7.00"]  # a sixtieth of 420
    assert rows["borealis"] == ["0.50", "1", "3.50"]
    assert "2 booked, 1 duplicate, 0 conflict, 0 unpriced" in ended.stdout


async def test_croesus_refuses_another_content_with_an_error(installation: Installation, kafka: Link) -> None:
    ended = await bill(installation, kafka, usage(), usage(59_999))
    assert ended.returncode == 1
    assert "1 booked, 0 duplicate, 1 conflict, 0 unpriced" in ended.stdout
    assert "aurora chat-r1:2025-11-29T12:00:00.000Z was booked with different content" in ended.stdout


async def test_a_fleets_log_is_written_whole(installation: Installation) -> None:
    ended = await asyncio.to_thread(
        sim, installation, "fleet", "--hours", "0.2", "--orgs", "5", "--replicas", "10", "--instances", "5"
    )
    assert ended.returncode == 0, ended.stderr
    written = re.search(r"([\d,]+) records written", ended.stdout)
    assert written is not None
    consumer = AIOKafkaConsumer(bootstrap_servers=installation.bootstrap_servers)
    await consumer.start()
    try:
        ends = await consumer.end_offsets([place for spec in INBOUND for place in installation.places(spec)])
    finally:
        await consumer.stop()
    assert sum(ends.values()) == int(written[1].replace(",", ""))
    # 12 minutes, both ends included
    assert [ends[place] for place in installation.places(CLOCK)] == [13] * PARTITIONS
    assert ends[installation.places(PRICES)[0]] > 8


async def test_a_log_needs_times_of_its_own(installation: Installation) -> None:
    broker_time = Installation(
        bootstrap_servers=installation.bootstrap_servers, namespace=installation.namespace, partitions=PARTITIONS
    )
    ended = await asyncio.to_thread(sim, broker_time, "fleet", "--hours", "1")
    assert ended.returncode == 2
    assert "OBOL_TIMESTAMPS=producer" in ended.stderr


def test_the_demo_shows_its_stories_and_its_figures_add_up(kafka_bootstrap: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "sim", "demo"],
        env={**os.environ, "KAFKA_BOOTSTRAP_SERVERS": kafka_bootstrap, "DEMO": "once", "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "0 duplicate, 0 conflict, 0 unpriced" in ended.stdout
    assert "All figures add up: " in ended.stdout
    for story in ("(B8)", "(B7)", "(B1)", "(P3)", "(P5)", "(P6, P7)", "(B9, B20)", "(B22)", "(I6, I7)", "(I1)", "(P8)"):
        assert story in ended.stdout
    assert re.search(r"http://127\.0\.0\.1:\d+/orgs/aurora", ended.stdout)
