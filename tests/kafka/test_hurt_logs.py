"""Logs with unusual or damaged content on a real broker, with a restart: a worker does what the contract says."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient

from schemas.times import rfc3339
from streams.engine.headers import REROUTED
from tests.support.accidents import delete_records
from tests.support.http_get import get
from tests.support.raw_batches import RawRecord, batch, send_batch
from tests.support.raw_logs import ANY_TIME, MINUTE_MS, TICK, RawLog, create, heartbeat, price
from tests.support.workers import DEADLINE_S, POLL_S, Worker
from tools.kafka_server import KafkaServer
from tools.leftovers import session_folder
from tools.server import free_ports
from topics.catalogue import CLOCK, COMMANDS, DEAD_LETTERS, HEARTBEATS, PRICES, RESULTS, USAGE

if TYPE_CHECKING:
    from collections.abc import Sequence

pytestmark = pytest.mark.kafka

NOT_UTF8 = ((b"\xff\xfe", b"1"),)


def reasons(letters: Sequence[Any]) -> list[tuple[str, str, int]]:
    return sorted((letter["topic"], letter["reason"], letter["offset"]) for letter in letters)


@pytest.mark.parametrize("codec", ["none", "gzip", "lz4"])
async def test_headers_that_are_not_utf8_are_left_out(kafka_bootstrap: str, namespace: str, codec: str) -> None:
    log = RawLog(kafka_bootstrap, namespace)
    await log.provision()
    prices = [price("dedicated.a100.1x", headers=NOT_UTF8), price(headers=NOT_UTF8), price("disk")]
    await log.send(PRICES.name, prices, -1, codec=codec)
    commands = [create("c1", "one"), create("c2", "two", headers=NOT_UTF8), RawRecord(b"{", headers=NOT_UTF8)]
    await log.send(COMMANDS.name, [*commands, create("c3", "three", "a100")], 0, codec=codec)
    # A misplaced one, whose other header can be read.
    headers = (*NOT_UTF8, (b"trace", b"7"))
    await log.send(COMMANDS.name, [create("c4", "four", headers=headers)], 1, codec=codec, partition=1 - log.home)
    await log.run_until_caught_up()
    await log.send(COMMANDS.name, [create("c5", "five", headers=NOT_UTF8)], 2, codec=codec)
    await log.run_until_caught_up()
    results = {result["command_id"]: result["outcome"] for result in await log.values(RESULTS.name)}
    assert results == dict.fromkeys(["c1", "c2", "c3", "c4", "c5"], "accepted")
    assert reasons(await log.values(DEAD_LETTERS.name)) == [(COMMANDS.name, "undecodable", 2)]
    (again,) = [record for record in await log.installation.read(COMMANDS.name) if REROUTED in dict(record.headers)]
    assert [name for name, _ in again.headers] == ["trace", REROUTED]


async def test_no_size_of_headers_or_key_makes_a_commit_impossible(kafka_bootstrap: str, namespace: str) -> None:
    log = RawLog(kafka_bootstrap, namespace)
    await log.provision()
    await log.running()
    emoji = "\N{GRINNING FACE}".encode()
    # The broker takes 1,048,588 bytes, compressed ones: 2 MB of one emoji are a few kB.
    misplaced: list[tuple[str, RawRecord, str]] = [
        ("headers of 2 MB", heartbeat(headers=((emoji * 500_000, b""),)), "gzip"),
        ("headers of 1 MB", heartbeat(headers=((emoji * 240_000, b""),)), "none"),
        ("headers at the bound", heartbeat(headers=((emoji * 4_096, b""),)), "none"),
        ("a header too many", heartbeat(headers=((b"", None),) * 100_000), "none"),
        ("a large key", RawRecord(heartbeat().value, bytes(512 * 1_024)), "none"),
        ("a large value", RawRecord((heartbeat().value or b"") + b" " * 65_000, b"k"), "none"),
        ("too large a key", RawRecord(heartbeat().value, bytes(512 * 1_024 + 1)), "none"),
        ("too large a record", RawRecord(heartbeat().value, bytes(2_000_000)), "gzip"),
    ]
    for at, (_, record, codec) in enumerate(misplaced):
        await log.send(HEARTBEATS.name, [record], 1 + at / 10, codec=codec, partition=1 - log.home)
    # In the right partition, key and headers are ignored; a dead letter has 64 KiB of each, in base64.
    for record in (heartbeat(headers=((emoji * 240_000, b""),)), RawRecord(heartbeat().value, bytes(1_000_000))):
        await log.send(HEARTBEATS.name, [record], 2)
    await log.send(HEARTBEATS.name, [RawRecord(b"\x01" * 900_000, bytes(100_000))], 2)
    await log.run_until_caught_up()
    await log.send(HEARTBEATS.name, [misplaced[0][1], heartbeat()], 3, codec="gzip", partition=1 - log.home)
    await log.run_until_caught_up()
    await log.tick(4)
    await log.run_until_caught_up()
    letters = await log.values(DEAD_LETTERS.name)
    assert sorted((letter["reason"], letter["offset"], letter["truncated"]) for letter in letters) == [
        ("too_large", 2, True),  # in its own partition, after two heartbeats
        ("too_large", 6, True),
        ("too_large", 7, True),
    ]
    assert all(len(base64.b64decode(letter["key_base64"])) == 65_536 for letter in letters)
    again = [r for r in await log.installation.read(HEARTBEATS.name) if REROUTED in dict(r.headers)]
    assert [len(record.headers) for record in again] == [1, 1, 2, 1, 1, 1, 1, 1]
    assert len(await log.values(USAGE.name)) == 4  # up to the tick: the last heartbeat is at 3 min


@pytest.mark.parametrize("at_ms", [-1, 57_000 * 31_556_952_000])
async def test_a_time_out_of_range_changes_nothing_else(kafka_bootstrap: str, namespace: str, at_ms: int) -> None:
    log = RawLog(kafka_bootstrap, namespace)
    await log.provision(ANY_TIME)
    await log.running()
    topic = log.installation.settings.topic
    for name, record in ((HEARTBEATS, heartbeat()), (COMMANDS, create("c2", "two")), (CLOCK, TICK), (PRICES, price())):
        place = 0 if name is PRICES else log.home
        await send_batch(kafka_bootstrap, topic(name.name), place, batch([record], timestamp_ms=at_ms))
    await log.send(HEARTBEATS.name, [heartbeat()], 2)
    await log.tick(3)
    await log.run_until_caught_up()
    await log.send(HEARTBEATS.name, [heartbeat()], 4)
    await log.tick(5)
    with Worker(log.installation) as worker:
        await log.installation.wait_until_caught_up([worker])
        worker.wait_for("[^Worker]: Ready")
        for path in ("/", "/ready", "/orgs/acme", "/orgs/acme/replicas/d-r1", "/prices", "/tables/positions/"):
            got = get(f"{worker.url}{path}", 10)
            assert got.status == HTTPStatus.OK, (path, got.text)
            if path.startswith("/orgs"):
                assert got.json["as_of"] == rfc3339(log.start_ms + 5 * MINUTE_MS)
    letters = await log.installation.read(DEAD_LETTERS.name)
    assert reasons([json.loads(letter.value or b"") for letter in letters]) == [
        (HEARTBEATS.name, "invalid", 0),
        (CLOCK.name, "invalid", 0),
        (COMMANDS.name, "invalid", 1),
    ]
    assert {json.loads(letter.value or b"")["timestamp"] for letter in letters} == {at_ms}
    assert {letter.timestamp for letter in letters} <= {0, log.start_ms}
    assert [result["command_id"] for result in await log.values(RESULTS.name)] == ["c"]
    assert len(await log.values(USAGE.name)) == 5


def peak_mb(worker: Worker) -> float:
    """Return the peak memory of a worker."""
    status = Path(f"/proc/{worker.process.pid}/status").read_text(encoding="ascii")
    (line,) = [line for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) / 1_000


@pytest.mark.parametrize("codec", ["gzip", "zstd"])
async def test_memory_does_not_depend_on_what_is_sent(kafka_bootstrap: str, namespace: str, codec: str) -> None:
    log = RawLog(kafka_bootstrap, namespace)
    await log.provision()
    await log.running()
    with Worker(log.installation, "--without-web") as worker:
        await log.installation.wait_until_caught_up([worker])
        before_mb = peak_mb(worker)
    for minute in (1, 2, 3):
        # 200 MB, 0.2 MB on the wire, between two heartbeats; and one alone, in the topic of prices.
        await log.send(
            HEARTBEATS.name, [heartbeat(), RawRecord(bytes(200_000_000), b"acme"), heartbeat()], minute, codec=codec
        )
    await log.send(PRICES.name, [RawRecord(bytes(200_000_000), b"disk"), price("disk")], 1, codec=codec)
    for minute in (2, 4):
        await log.tick(minute)
        with Worker(log.installation, "--without-web") as worker:
            await log.installation.wait_until_caught_up([worker])
            assert peak_mb(worker) < before_mb + 60
    letters = await log.values(DEAD_LETTERS.name)
    assert [(letter["offset"], letter["reason"]) for letter in letters] == [(at, "too_large") for at in (1, 4, 7)]
    assert all(letter["error"] == "the value has 200000000 bytes, over 65536" for letter in letters)
    assert all(base64.b64decode(letter["value_base64"]) == bytes(65_536) for letter in letters)
    assert all((letter["key_base64"], letter["truncated"]) == ("YWNtZQ==", True) for letter in letters)
    assert len(await log.values(USAGE.name)) == 4


async def wait_for_ticks(log: RawLog, worker: Worker, partition: int) -> None:
    """Wait until every tick of one partition is applied and committed."""
    clock = TopicPartition(log.installation.settings.topic(CLOCK.name), partition)
    admin = AIOKafkaAdminClient(bootstrap_servers=log.installation.bootstrap)
    await admin.start()
    try:
        end = (await log.installation.ends([clock]))[clock]
        until_s = time.monotonic() + DEADLINE_S
        while True:
            committed = await admin.list_consumer_group_offsets(log.installation.settings.app_id)
            if clock in committed and committed[clock].offset >= end:
                return
            worker.check()
            assert time.monotonic() < until_s, worker.tail()
            await asyncio.sleep(POLL_S)
    finally:
        await admin.close()


def flip_a_bit(folder: Path, topic: str, partition: int, content: bytes) -> None:
    """Flip a bit of `content` in the one segment of a partition."""
    (segment,) = (folder / "data" / f"{topic}-{partition}").glob("*.log")
    stored = segment.read_bytes()
    at = stored.index(content)
    segment.write_bytes(stored[:at] + bytes([stored[at] ^ 1]) + stored[at + 1 :])


async def test_one_flipped_bit_blocks_one_partition_and_skips_nothing(namespace: str) -> None:
    broker = KafkaServer(session_folder() / "log-broker", free_ports(KafkaServer.neighbouring_ports))
    broker.start()
    try:
        log = RawLog(broker.address(broker.port), namespace, partitions=2)
        await log.provision()
        await log.running()
        await log.send(HEARTBEATS.name, [heartbeat()], 1)
        await log.tick(2)
        await log.run_until_caught_up()
        for minute, event in ((2, b"left"), (3, b"log"), (4, b"left")):
            await log.send(HEARTBEATS.name, [heartbeat(), heartbeat(headers=((b"n", event),))], minute)
            await log.tick(minute + 1)
        other = 1 - log.home
        broker.stop()
        topic = log.installation.settings.topic(HEARTBEATS.name)
        flip_a_bit(broker.folder, topic, log.home, b"log")
        broker.start()
        line = f"{topic} partition {log.home} can't be read at offset 3: the checksum of the batch with offsets 3 to 4"
        for _ in range(2):
            with Worker(log.installation) as worker:
                worker.wait_for(line)
                worker.wait_for("[^Worker]: Ready")
                got = get(f"{worker.url}/ready", 10)
                assert got.status == HTTPStatus.SERVICE_UNAVAILABLE
                assert "can't be read at offset 3" in got.json["detail"]
                metrics = get(f"{worker.url}/metrics", 10).text
                assert f'obol_partition_blocked{{partition="{log.home}"}} 1.0' in metrics
                assert f'obol_partition_blocked{{partition="{other}"}} 0.0' in metrics
                await wait_for_ticks(log, worker, other)
                worker.check()
        # What came before is applied and billed; of what comes after, nothing.
        assert len(await log.values(USAGE.name)) == 2
        assert await log.values(DEAD_LETTERS.name) == []
        # The operator gives the batch up, with the topic's own tool: the rest is read on.
        await delete_records(log.installation, topic, 5, log.home)
        with Worker(log.installation) as worker:
            await log.installation.wait_until_caught_up([worker])
            worker.wait_for("were deleted before they were read")
            worker.wait_for("[^Worker]: Ready")
            assert get(f"{worker.url}/ready", 10).status == HTTPStatus.OK
        assert len(await log.values(USAGE.name)) == 5
    finally:
        broker.remove()
