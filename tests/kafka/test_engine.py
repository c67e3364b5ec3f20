"""The engine on a real broker: from records to bills, with all kinds of records, and with other workers."""

from __future__ import annotations

import asyncio
import json
import time
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from sim.fleet import timeline
from streams.engine import ticks as engine_ticks
from streams.engine.clock import SystemClock
from streams.engine.fatal import EXIT_FAULT
from streams.engine.headers import REROUTED
from streams.engine.kafka import AioKafka
from streams.engine.position import decode_position
from streams.replay.driver import ShardDriver
from streams.settings import EXIT_WRONG_SETTING
from tests.support import http_get
from tests.support.workers import DEADLINE_S, POLL_S, Installation, LagWatch, Sent, Worker
from topics.catalogue import CLOCK, COMMANDS, DEAD_LETTERS, HEARTBEATS, OUTBOUND, PRICES, PROGRESS, RESULTS, USAGE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

pytestmark = pytest.mark.kafka

SECOND_MS = 1_000
MINUTE_MS = 60 * SECOND_MS
HOUR_MS = 60 * MINUTE_MS
TICK = b'{"type":"tick"}'


def whole_minute_before(hours: float) -> int:
    return (int(time.time() * 1_000) - int(hours * HOUR_MS)) // MINUTE_MS * MINUTE_MS


def sent(installation: Installation, topic: str, at_ms: int, fields: dict[str, Any]) -> Sent:
    org_id = fields["org_id"]
    return Sent(topic, at_ms, org_id.encode(), json.dumps(fields).encode(), installation.place(topic, org_id))


def ticks(installation: Installation, start_ms: int, minutes: int) -> Iterator[Sent]:
    for minute in range(minutes + 1):
        for partition in range(installation.partitions):
            yield Sent(CLOCK.name, start_ms + minute * MINUTE_MS + 2 * SECOND_MS, None, TICK, partition)


def price(at_ms: int, profile: str = "dedicated.h100.1x") -> Sent:
    value = {"profile": profile, "price": "100", "currency": "JPY"}
    return Sent(PRICES.name, at_ms, profile.encode(), json.dumps(value).encode(), 0)


def create(installation: Installation, at_ms: int, org_id: str = "acme", deployment_id: str = "d") -> Sent:
    fields = {
        "command_id": f"create-{deployment_id}",
        "org_id": org_id,
        "type": "create_deployment",
        "deployment_id": deployment_id,
        "model": "m",
        "gpu_type": "h100",
        "gpu_count": 1,
    }
    return sent(installation, COMMANDS.name, at_ms, fields)


def callback(installation: Installation, at_ms: int, event_id: str, status: str, message: str = "") -> Sent:
    fields = {"event_id": event_id, "org_id": "acme", "replica_id": "d-r1", "status": status, "message": message}
    return sent(installation, PROGRESS.name, at_ms, fields)


def heartbeat(installation: Installation, at_ms: int, org_id: str = "acme", replica_id: str = "d-r1") -> Sent:
    return sent(installation, HEARTBEATS.name, at_ms, {"org_id": org_id, "replica_id": replica_id})


def node_failure(installation: Installation, start_ms: int) -> list[Sent]:
    """Return the records of B8: running, the last heartbeat 30 minutes later, failed an hour after that."""
    return [
        price(start_ms - MINUTE_MS),
        create(installation, start_ms - MINUTE_MS),
        callback(installation, start_ms, "e1", "RUNNING", "Server is healthy"),
        *(heartbeat(installation, start_ms + at * 30 * SECOND_MS) for at in range(61)),
        callback(installation, start_ms + 90 * MINUTE_MS, "e2", "SYSTEM_FAILURE", "node is gone"),
        *ticks(installation, start_ms, 100),
    ]


async def get(url: str) -> tuple[int, Any]:
    """Request a view; retry while a partition moves between workers."""

    def ask() -> tuple[int, Any]:
        end_s = time.monotonic() + DEADLINE_S
        while True:
            try:
                with urlopen(url, timeout=10) as answer:  # noqa: S310 - a worker of ours
                    return answer.status, json.load(answer)
            except HTTPError as error:
                if error.code != HTTPStatus.SERVICE_UNAVAILABLE or time.monotonic() > end_s:
                    return error.code, None
            time.sleep(POLL_S)

    return await asyncio.to_thread(ask)


async def outcome(installation: Installation) -> dict[str, list[tuple[Any, ...]]]:
    return {
        spec.name: sorted(
            (r.partition, r.timestamp, r.key or b"", r.value or b"") for r in await installation.read(spec.name)
        )
        for spec in OUTBOUND
    }


def expected_output(installation: Installation, records: Iterable[Sent]) -> dict[str, list[tuple[Any, ...]]]:
    """Return the output of the in-process driver for the same records."""
    driver = ShardDriver(partitions=installation.partitions)
    for topic, at_ms, key, value, partition in records:
        driver.send(topic, value, at_ms, key, partition)
    driver.run()
    return {
        spec.name: sorted((r.partition, r.timestamp, r.key or b"", r.value or b"") for r in driver.records(spec.name))
        for spec in OUTBOUND
    }


async def counts(installation: Installation) -> dict[str, dict[str, int]]:
    """Return all partitions' counts from their position rows."""
    latest = {record.partition: record.value or b"" for record in await installation.read_changelog("positions")}
    added: dict[str, dict[str, int]] = {}
    for value in latest.values():
        for kind, details in decode_position(value).counts.items():
            for detail, count in details.items():
                added.setdefault(kind, {}).setdefault(detail, 0)
                added[kind][detail] += count
    return added


async def test_heartbeats_become_a_bill_and_every_worker_shows_it(kafka_bootstrap: str, namespace: str) -> None:
    installation = Installation(kafka_bootstrap, namespace, partitions=2)
    await installation.provision()
    start_ms = whole_minute_before(2)
    records = node_failure(installation, start_ms)
    await installation.send(records)
    # More workers than partitions: one of them has none, and responds all the same.
    with Worker(installation) as first, Worker(installation) as second, Worker(installation) as third:
        workers = [first, second, third]
        await installation.wait_until_caught_up(workers)
        bill = [json.loads(record.value or b"") for record in await installation.read(USAGE.name)]
        assert len(bill) == 32
        assert sum(piece["duration_ms"] for piece in bill) == 1_890_000
        assert bill[-1]["duration_ms"] == 30_000
        assert await outcome(installation) == expected_output(installation, records)
        for worker in workers:
            worker.wait_for("[^Worker]: Ready")
            status, window = await get(f"{worker.url}/orgs/acme/windows/d-r1.w1")
            assert status == 200
            assert window["billed_ms"] == 1_890_000
            assert window["billed_until"] == window["ended_at"]
            assert (await get(f"{worker.url}/ready"))[0] == 200
        assert [worker.stop() for worker in workers] == [0, 0, 0]


@pytest.mark.parametrize("codec", ["lz4", "zstd", "snappy", "gzip"])
async def test_compressed_and_keyless_records_give_the_same_bill(
    kafka_bootstrap: str, namespace: str, codec: str
) -> None:
    installation = Installation(kafka_bootstrap, namespace, partitions=2)
    await installation.provision()
    records = node_failure(installation, whole_minute_before(2))
    keyless = [record if record.topic == PRICES.name else record._replace(key=None) for record in records]
    await installation.send(keyless, compression_type=codec)
    with Worker(installation, "--without-web") as worker:
        await installation.wait_until_caught_up([worker])
    assert await outcome(installation) == expected_output(installation, records)


async def test_misplaced_records_are_rerouted(kafka_bootstrap: str, namespace: str) -> None:
    installation = Installation(kafka_bootstrap, namespace, partitions=4)
    await installation.provision()
    start_ms = whole_minute_before(1)
    orgs = [f"org-{n}" for n in range(20)]
    creates = [create(installation, start_ms, org_id, f"d-{org_id}") for org_id in orgs]
    await installation.send([price(start_ms - 1)])
    await installation.send(record._replace(partition=(record.partition + 1) % 4) for record in creates)
    with Worker(installation, "--without-web") as worker:
        async with LagWatch(installation) as watch:
            await watch.wait_until(0, [worker])
        # The inputs have grown by what was published again, and by the transactions' markers.
        await installation.wait_until_caught_up([worker])
    results = await installation.read(RESULTS.name)
    assert {json.loads(result.value or b"")["org_id"] for result in results} == set(orgs)
    assert all(json.loads(result.value or b"")["outcome"] == "accepted" for result in results)
    assert all(result.partition == installation.place(RESULTS.name, (result.key or b"").decode()) for result in results)
    again = [record for record in await installation.read(COMMANDS.name) if record.headers]
    assert sorted((record.value, record.key, record.timestamp) for record in again) == sorted(
        (record.value, record.key, record.timestamp) for record in creates
    )
    assert {name for record in again for name, _ in record.headers} == {REROUTED}
    assert (await counts(installation))["rerouted"] == {COMMANDS.name: 20}


# Every way to be wrong, and what becomes of it.

NO_JSON = [b"", b"{", b"}", b"nul", b"[1]", b'"text"', b"7", b"\xff", b'{"a":\xff}', b'{"a":NaN}', b'{"a":-Infinity}']
NO_JSON += [b'{"a":"\\ud800"}', b"{'a':1}", b'{"a":1}}', b'{"a":01}', b'{"a":1,}', b'{"a":' * 40 + b"1" + b"}" * 40]
NO_STRING = [7, -1, 0.5, True, False, [], ["x"], {}, {"x": 1}]
NO_ID = [
    *NO_STRING,
    None,
    "",
    " ",
    "-x",
    ".x",
    "_x",
    "a b",
    "a/b",
    "ä",
    "x\n",
    "x" * 129,
    "a\u0000",
    "x:y",
    "x,y",
    "x@y",
    "x#y",
]
NO_ID += ["x%20", "x+y", "x=y", 'x"y', "x\\y", "日本", "~", "x\t", "\u200b"]
NO_COUNT = ["1", 0.5, True, [], {}, 0, -1, 2**63, 1e400]
NO_MONEY = [*NO_STRING, None, "", "1.", ".5", "1,5", "+1", "1e3", "NaN", "1" * 19, "0." + "1" * 19]
NO_WORD = [*NO_STRING, None, "", "unknown", "Running"]

Bad = tuple[str, bytes, str]
"""A topic, a value, and the reason of its dead letter; `INVALID` for a command that gets that result."""


def spoiled(topic: str, good: dict[str, Any], wrong: dict[str, list[Any]], reason: str = "invalid") -> Iterator[Bad]:
    """`good` with one field missing, or with one wrong value in it."""
    for field, values in wrong.items():
        yield topic, json.dumps({name: value for name, value in good.items() if name != field}).encode(), reason
        for value in values:
            # json.dumps writes NaN and Infinity, which are no JSON.
            content = json.dumps(good | {field: value}).encode()
            yield topic, content, "undecodable" if b"Infinity" in content else reason


def bad_inputs() -> list[Bad]:
    ids = {"org_id": "acme", "command_id": "c"}
    found: list[Bad] = []
    for topic in ("croesus.accounts", COMMANDS.name, "inference.requests", PROGRESS.name, "host.reports"):
        found += [(topic, value, "undecodable") for value in NO_JSON]
        found.append((topic, b'{"a":"' + b"a" * 65_536 + b'"}', "too_large"))
    for topic in (HEARTBEATS.name, CLOCK.name):
        found += [(topic, value, "undecodable") for value in NO_JSON]
    heartbeat = {"org_id": "acme", "replica_id": "r"}
    found += spoiled(HEARTBEATS.name, heartbeat, {"org_id": NO_ID, "replica_id": NO_ID})
    found += spoiled(CLOCK.name, {"type": "tick"}, {"type": NO_WORD})
    balance = {"event_id": "e", "org_id": "acme", "type": "balance_updated", "balance": "1"}
    found += spoiled(
        "croesus.accounts", balance, {"event_id": NO_ID, "org_id": NO_ID, "type": NO_WORD, "balance": NO_MONEY}
    )
    progress = {"event_id": "e", "org_id": "acme", "replica_id": "r", "status": "RUNNING"}
    found += spoiled(
        PROGRESS.name, progress, {"event_id": NO_ID, "org_id": NO_ID, "replica_id": NO_ID, "status": NO_WORD}
    )
    report = {"event_id": "e", "org_id": "acme", "instance_id": "i", "report": "workload_up"}
    found += spoiled(
        "host.reports", report, {"event_id": NO_ID, "org_id": NO_ID, "instance_id": NO_ID, "report": NO_WORD}
    )
    request = {"org_id": "acme", "deployment_id": "d"}
    found += spoiled("inference.requests", request, {"org_id": NO_ID, "deployment_id": [*NO_ID, "x" * 113]})
    found += [
        ("inference.requests", json.dumps(request | {"count": count}).encode(), "invalid")
        for count in NO_COUNT
        if count != 1e400
    ]
    stop = {**ids, "type": "stop_deployment", "deployment_id": "d"}
    found += spoiled(COMMANDS.name, stop, {"org_id": NO_ID, "command_id": NO_ID})
    found += spoiled(COMMANDS.name, stop, {"type": NO_WORD, "deployment_id": NO_ID}, "INVALID")
    new = {**ids, "type": "create_deployment", "deployment_id": "d", "model": "m", "gpu_type": "h100", "gpu_count": 1}
    new_wrong = {"model": [*NO_STRING, None, "", "m" * 513], "gpu_type": [*NO_ID, "H100"], "gpu_count": [*NO_COUNT, 17]}
    found += spoiled(COMMANDS.name, new, new_wrong, "INVALID")
    vm = {
        **ids,
        "type": "deploy_instance",
        "instance_id": "i",
        "offer_id": "o",
        "gpu_type": "a100",
        "gpu_count": 1,
        "disk_gb": 10,
        "template": {"mode": "ssh", "image": "x"},
    }
    vm_wrong = {
        "instance_id": NO_ID,
        "offer_id": [*NO_STRING, None, ""],
        "gpu_type": NO_ID,
        "gpu_count": NO_COUNT,
        "disk_gb": [*NO_COUNT, 65_537],
        "template": ["ssh", 7, None, {}, {"mode": "ssh"}, {"image": "x"}, {"mode": "vnc", "image": "x"}],
    }
    found += spoiled(COMMANDS.name, vm, vm_wrong, "INVALID")
    for kind in ("start_instance", "stop_instance", "destroy_instance"):
        found += spoiled(COMMANDS.name, {**ids, "type": kind, "instance_id": "i"}, {"instance_id": NO_ID}, "INVALID")
    return found


async def test_a_thousand_kinds_of_bad_input_are_all_accounted_for(kafka_bootstrap: str, namespace: str) -> None:
    bad = bad_inputs()
    assert len(set(bad)) >= 1_000, len(set(bad))
    installation = Installation(kafka_bootstrap, namespace, partitions=1)
    await installation.provision()
    start_ms = whole_minute_before(1)
    records: list[Sent] = []
    for n, (topic, value, reason) in enumerate(bad):
        # Each command has an id of its own, so that each gets a result of its own.
        own = value.replace(b'"command_id": "c"', f'"command_id": "c{n}"'.encode()) if reason == "INVALID" else value
        records.append(Sent(topic, start_ms + n, f"{n}".encode(), own, 0))
    await installation.send(records)
    with Worker(installation, "--without-web") as worker:
        await installation.wait_until_caught_up([worker])
        worker.check()

    letters = {
        (letter["topic"], letter["offset"]): letter["reason"]
        for letter in (json.loads(record.value or b"") for record in await installation.read(DEAD_LETTERS.name))
    }
    offsets: dict[str, int] = {}
    for topic, value, reason in bad:
        offset = offsets.get(topic, 0)
        offsets[topic] = offset + 1
        assert letters.pop((topic, offset), "INVALID") == reason, (topic, value)
    assert letters == {}
    results = [json.loads(record.value or b"") for record in await installation.read(RESULTS.name)]
    invalid = sum(reason == "INVALID" for _, _, reason in bad)
    assert len(results) == invalid
    assert {(result["code"], result["status"]) for result in results} == {("INVALID", 400)}
    counted = await counts(installation)
    assert sum(counted["read"].values()) == len(bad)
    assert sum(counted["dead"].values()) == len(bad) - invalid
    assert {topic: count for topic, count in counted["applied"].items() if count} == {COMMANDS.name: invalid}


async def test_a_replay_from_the_start_gives_the_same(kafka_bootstrap: str, namespace: str) -> None:
    start_ms = whole_minute_before(2)
    outcomes = []
    for name in ("once", "again"):
        installation = Installation(kafka_bootstrap, f"{namespace}.{name}", partitions=2)
        await installation.provision()
        fleet = timeline(3, 5, 30, start_ms, 0.5, instances=6, partitions=2, duplicates=0.1)
        records = list(installation.placed(fleet))
        if name == "once":
            # As it happens: the log grows while the worker reads it. What is written in one transaction is there at
            # once, so that nothing is read that follows in time what is still to be written.
            with Worker(installation, "--without-web") as worker:
                for at in range(0, len(records), 500):
                    await installation.send(records[at : at + 500], transactional_id=f"{namespace}-fleet")
                    await installation.wait_until_caught_up([worker])
        else:
            await installation.send(records)
            with Worker(installation, "--without-web") as worker:
                await installation.wait_until_caught_up([worker])
        outcomes.append(await outcome(installation))
        assert outcomes[-1]["croesus.usage"]
    assert outcomes[0]["croesus.usage"] == outcomes[1]["croesus.usage"]
    assert outcomes[0] == outcomes[1] == expected_output(installation, records)


async def wait_for_lag(worker: Worker, lag_s: int) -> None:
    """Wait until the newest record that partition 0 has fetched, and not applied, is so far ahead of it."""
    async with asyncio.timeout(DEADLINE_S):
        line = f'obol_lag_seconds{{partition="0"}} {lag_s}.0'
        while line not in await asyncio.to_thread(metrics_of, worker):  # noqa: ASYNC110 - it is in another process
            await asyncio.sleep(POLL_S)


def metrics_of(worker: Worker) -> str:
    return http_get.get(f"{worker.url}/metrics", 10).text


async def test_a_tick_waits_for_what_was_there_before_it(kafka_bootstrap: str, namespace: str) -> None:
    """A heartbeat of a transaction that is open when the tick is read counts at that tick, live as in a replay."""
    installation = Installation(kafka_bootstrap, namespace, partitions=1)
    await installation.provision()
    start_ms = whole_minute_before(1)
    first = [
        price(start_ms - MINUTE_MS),
        create(installation, start_ms - MINUTE_MS),
        callback(installation, start_ms, "e1", "RUNNING", "healthy"),
    ]
    late_heartbeat = heartbeat(installation, start_ms + 4 * MINUTE_MS)
    tick = Sent(CLOCK.name, start_ms + 5 * MINUTE_MS + 2_000, None, TICK, 0)
    await installation.send(first)
    producer = AIOKafkaProducer(bootstrap_servers=kafka_bootstrap, transactional_id=f"{namespace}-fleet")
    with Worker(installation) as worker:
        await installation.wait_until_caught_up([worker])
        await producer.start()
        await producer.begin_transaction()
        name = installation.settings.topic(HEARTBEATS.name)
        await producer.send_and_wait(
            name, late_heartbeat.value, key=late_heartbeat.key, partition=0, timestamp_ms=late_heartbeat.timestamp
        )
        # Each has been fetched once the worker knows how far it is behind it.
        later = heartbeat(installation, start_ms + 4 * MINUTE_MS, "other", "unknown")._replace(topic=PROGRESS.name)
        await installation.send([later])
        await wait_for_lag(worker, 240)
        await installation.send([tick])
        await wait_for_lag(worker, 302)
        async with LagWatch(installation) as watch:
            # What another topic has before the tick waits as well.
            for _ in range(200):
                lag = await watch.lag()
                assert (lag[CLOCK.name], lag[PROGRESS.name]) == (1, 1)
        await producer.commit_transaction()
        await producer.stop()
        await installation.wait_until_caught_up([worker])
    usage = [json.loads(record.value or b"") for record in await installation.read(USAGE.name)]
    assert len(usage) == 5, "up to the last heartbeat + 90 s, in whole minutes"
    assert "out_of_order" not in await counts(installation)


async def test_a_topic_with_another_partition_count_is_refused(kafka_bootstrap: str, namespace: str) -> None:
    installation = Installation(kafka_bootstrap, namespace, partitions=4)
    admin = AIOKafkaAdminClient(bootstrap_servers=kafka_bootstrap)
    await admin.start()
    await admin.create_topics(
        [
            NewTopic(
                installation.settings.topic(PROGRESS.name), 3, 1, topic_configs={"message.timestamp.type": "CreateTime"}
            )
        ]
    )
    await admin.close()
    with Worker(installation, "--without-web") as worker:
        assert await asyncio.to_thread(worker.wait) == EXIT_WRONG_SETTING
        (line,) = [line for line in worker.tail().splitlines() if "partitions" in line]
        assert f"{namespace}.execlet.progress has 3 partitions, OBOL_PARTITIONS says 4; set OBOL_PARTITIONS=3" in line


def test_a_wrong_setting_ends_the_worker_with_one_line(kafka_bootstrap: str, namespace: str) -> None:
    installation = Installation(kafka_bootstrap, namespace)
    with Worker(installation, OBOL_CLOCK="sundial") as worker:
        assert worker.wait() == EXIT_WRONG_SETTING
        assert worker.tail().strip() == "OBOL_CLOCK is 'sundial'; set it to wall or log"


async def test_rows_that_cannot_be_read_end_the_worker_with_an_error(kafka_bootstrap: str, namespace: str) -> None:
    installation = Installation(kafka_bootstrap, namespace, partitions=1)
    await installation.provision()
    with Worker(installation, "--without-web") as worker:
        worker.wait_for("are active")
        assert worker.stop() == 0
    producer = AIOKafkaProducer(bootstrap_servers=kafka_bootstrap)
    await producer.start()
    await producer.send_and_wait(installation.changelog("replicas"), b"no row", key=b"o/r", partition=0)
    await producer.stop()
    with Worker(installation, "--without-web") as worker:
        assert await asyncio.to_thread(worker.wait) == EXIT_FAULT
        assert "the row 'o/r' of replicas, partition 0, can't be restored: JSON is malformed" in worker.tail(80)


async def test_the_wall_clock_writes_a_tick_to_each_partition_of_its_worker(
    kafka_bootstrap: str, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    installation = Installation(kafka_bootstrap, namespace, partitions=4)
    await installation.provision()
    monkeypatch.setattr(engine_ticks, "next_tick_ms", lambda now_ms: now_ms + 50)
    settings = installation.settings
    producer = AioKafka(settings.kafka_client_options()).producer()
    writer = engine_ticks.TickWriter(producer, SystemClock(), settings.topic(CLOCK.name), lambda: [1, 3])
    before_ms = int(time.time() * 1_000)
    await writer.start()
    work = asyncio.create_task(writer.run())
    try:
        async with asyncio.timeout(30):
            while len(found := await installation.read(CLOCK.name)) < 6:  # noqa: ASYNC110 - it is on a broker
                await asyncio.sleep(0.05)
    finally:
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
        await writer.stop()
    assert {record.partition for record in found} == {1, 3}
    assert {record.key for record in found} == {None}
    written = [json.loads(record.value or b"") for record in found]
    assert {tick["type"] for tick in written} == {"tick"}
    assert all(before_ms <= tick["at"] <= time.time() * 1_000 for tick in written)
    assert all(before_ms <= record.timestamp <= time.time() * 1_000 for record in found)
