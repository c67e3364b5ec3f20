"""The session's services, which all tests above the unit layer need."""

from __future__ import annotations

import socket

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from redis.asyncio import Redis

from tools import server
from tools.console import ToolError
from tools.kafka_server import KafkaServer
from tools.leftovers import session_folder
from tools.server import LOOPBACK, Running, birth_of, free_ports
from tools.services import KAFKA


@pytest.mark.kafka
async def test_a_transaction_reaches_a_reader_of_committed_records(kafka_bootstrap: str, namespace: str) -> None:
    topic = f"{namespace}.trial"
    admin = AIOKafkaAdminClient(bootstrap_servers=kafka_bootstrap)
    await admin.start()
    try:
        await admin.create_topics([NewTopic(topic, num_partitions=1, replication_factor=1)])
    finally:
        await admin.close()
    producer = AIOKafkaProducer(bootstrap_servers=kafka_bootstrap, transactional_id=namespace, compression_type="zstd")
    await producer.start()
    try:
        async with producer.transaction():
            await producer.send_and_wait(topic, b"kept", partition=0)
    finally:
        await producer.stop()
    consumer = AIOKafkaConsumer(
        topic, bootstrap_servers=kafka_bootstrap, auto_offset_reset="earliest", isolation_level="read_committed"
    )
    await consumer.start()
    try:
        record = await consumer.getone()
    finally:
        await consumer.stop()
    assert record.value == b"kept"


@pytest.mark.redis
async def test_redis_keeps_a_value(redis_url: str, namespace: str) -> None:
    async with Redis.from_url(redis_url) as redis:
        await redis.set(namespace, "1", ex=10)
        assert await redis.get(namespace) == b"1"


def test_a_port_in_use_is_refused_with_the_fix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KAFKA_BOOTSTRAP_SERVERS", raising=False)
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        broker = KafkaServer(session_folder() / "taken", port)
        with pytest.raises(ToolError, match=f"port {port} of 127.0.0.1 is in use by another program") as refused:
            broker.start()
    assert f"OBOL_BROKER_PORT={port + 100}" in str(refused.value)
    broker.remove()


def test_free_ports_are_outside_the_ephemeral_range() -> None:
    given = [port for first in (free_ports(4) for _ in range(100)) for port in range(first, first + 4)]
    # 32768 is Linux's first; 49152 is macOS's and Windows'.
    assert all(1_024 <= port < 32_768 for port in given)
    assert len(set(given)) == len(given)


def test_consecutive_ports_skip_a_port_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    first = free_ports(4)
    monkeypatch.setattr(server, "_listening_ports", iter(range(first, first + 4)))
    with socket.socket() as taken:
        # A port that does not listen is in use, too.
        taken.bind((LOOPBACK, first + 1))
        assert free_ports(2) == first + 2


@pytest.mark.parametrize("text", ["0", "-1", "99999", "kafka", "9092.0"])
def test_an_invalid_port_is_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.delenv("KAFKA_BOOTSTRAP_SERVERS", raising=False)
    monkeypatch.setenv("OBOL_BROKER_PORT", text)
    with pytest.raises(ToolError, match=f"OBOL_BROKER_PORT={text} is not a port"):
        KAFKA.start()


def test_the_address_in_the_environment_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", "kafka.example:9092")
    place = KAFKA.start()
    assert (place.address, place.started) == ("kafka.example:9092", False)


@pytest.mark.kafka
def test_a_second_start_finds_the_first_and_a_dead_one_is_replaced() -> None:
    folder = session_folder() / "second"
    port = free_ports(2)
    first = KafkaServer(folder, port)
    try:
        assert first.start() is True
        second = KafkaServer(folder, port + 2)
        assert second.start() is False
        assert second.port == port
        assert first.stop() is True
        assert second.stop() is False
        (folder / "process.json").write_text('{"pid": 1, "born": "another", "port": 1}', encoding="utf-8")
        assert first.running() is None
        assert first.start() is True
        running = first.running()
        assert isinstance(running, Running)
        assert birth_of(running.pid) == running.born
    finally:
        first.remove()
    assert not folder.exists()
