"""A fleet's log is deterministic, valid and in order, and a worker sends the orders that it was written for."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from sim import fleet
from sim.fleet import timeline
from sim.foresight import Foresight, Order
from sim.kafka import Installation
from sim.records import CURRENCY, Record
from streams.replay.driver import ShardDriver
from topics.catalogue import CLOCK, COMMANDS, INBOUND, OPERATOR_COMMANDS, PRICES, PROGRESS, REPORTS, TOPICS
from topics.codec import Rejected, decode, decode_prices

START = 1_764_417_600_000  # 2025-11-29T12:00:00Z
HOUR = 3_600_000
MINUTE = 60_000


def log(seed: int = 1, **sizes: Any) -> list[Record]:
    return list(
        timeline(**{"seed": seed, "orgs": 12, "replicas": 60, "start_ms": START, "hours": 2, "instances": 40, **sizes})
    )


def test_the_same_seed_gives_the_same_log() -> None:
    assert log() == log()


def test_another_seed_gives_another_log() -> None:
    assert log(1) != log(2)


def test_every_record_is_valid() -> None:
    records = log(duplicates=0.1, late=0.1)
    prices = [r for r in records if r.topic == PRICES.name]
    decoded = decode_prices([((r.key or "").encode(), r.value) for r in prices], CURRENCY)
    decoded += [decode(TOPICS[r.topic], r.value) for r in records if r.topic != PRICES.name]
    assert [one for one in decoded if isinstance(one, Rejected)] == []
    assert {record.topic for record in records} == {spec.name for spec in INBOUND} - {OPERATOR_COMMANDS.name}


def test_a_record_is_keyed_by_its_org() -> None:
    for record in log():
        if record.topic not in {PRICES.name, CLOCK.name}:
            assert decode(TOPICS[record.topic], record.value).org_id == record.key


def test_records_are_in_order_of_time() -> None:
    times = [record.timestamp_ms for record in log(duplicates=0.2)]
    assert times == sorted(times)


def test_prices_come_a_minute_before_the_start_and_nothing_is_earlier() -> None:
    records = log()
    assert records[0].timestamp_ms == START - MINUTE
    first_of_others = min(r.timestamp_ms for r in records if r.topic != PRICES.name)
    assert first_of_others == START


def test_each_partition_ticks_2_s_after_each_minute() -> None:
    ticks = Counter((r.timestamp_ms, r.partition) for r in log(partitions=3, hours=0.5) if r.topic == CLOCK.name)
    assert ticks == {(START + minute * MINUTE + 2_000, n): 1 for minute in range(31) for n in range(3)}


def test_late_records_break_the_order_by_90_s_at_most() -> None:
    latest, late = 0, 0
    for record in log(late=0.1):
        if record.timestamp_ms < latest:
            late += 1
            assert latest - record.timestamp_ms <= 90_000
        latest = max(latest, record.timestamp_ms)
    assert late > 100


def test_duplicates_are_copies() -> None:
    counts = Counter(
        (r.topic, r.value) for r in log(duplicates=0.2) if r.topic in {COMMANDS.name, PROGRESS.name, REPORTS.name}
    )
    assert set(counts.values()) == {1, 2}
    assert not [
        1 for (_, count) in Counter((r.topic, r.value) for r in log() if r.topic == PROGRESS.name).items() if count > 1
    ]


def test_sizes_are_as_asked() -> None:
    records = log(replicas=60, deployments=20, instances=40)
    commands = [decode(COMMANDS, record.value) for record in records if record.topic == COMMANDS.name]
    created = [command for command in commands if command.type == "create_deployment"]
    assert len(created) == 20
    assert sum(command.min_replicas for command in created) == 60
    assert sum(command.type == "deploy_instance" for command in commands) == 40
    assert len({record.key for record in records if record.topic == COMMANDS.name}) == 12


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ({"start_ms": START + 1}, f"start_ms is {START + 1}, not a whole minute; the nearest before is {START}"),
        ({"instances": 300}, "300 instances need 15 orgs or more, not 12"),
    ],
)
def test_impossible_sizes_are_refused(sizes: dict[str, int], words: str) -> None:
    with pytest.raises(ValueError) as refused:  # noqa: PT011 - the whole message is compared below
        log(**sizes)
    assert str(refused.value) == words


@pytest.mark.parametrize(
    "sizes",
    [
        {"seed": 1, "orgs": 40, "replicas": 200, "instances": 100},
        {"seed": 2, "orgs": 30, "replicas": 120, "instances": 150, "duplicates": 0.1},
        {"seed": 3, "orgs": 20, "replicas": 60, "deployments": 60, "heartbeat_s": 60, "instances": 0, "hours": 6},
        {"seed": 4, "orgs": 20, "replicas": 0, "instances": 60, "hours": 26},
    ],
)
def test_a_worker_sends_the_orders_that_the_stand_ins_have_executed(
    sizes: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Heartbeats, partitions and batches, which the foresight does without, change no order."""
    executed: Counter[tuple[str, str]] = Counter()

    class RecordingForesight(Foresight):
        def _orders(self) -> Iterator[Order]:
            for order in super()._orders():
                executed[order.org_id, order.order_id] += 1
                yield order

    monkeypatch.setattr(fleet, "Foresight", RecordingForesight)
    worker = ShardDriver(partitions=8, check=False)
    for record in log(**sizes):
        worker.send(record.topic, record.value, record.timestamp_ms, record.key, record.partition)
    worker.run()
    orders = [*worker.values("execlet.orders"), *worker.values("host.orders")]
    assert Counter((order["org_id"], order["order_id"]) for order in orders) == executed
    assert len(executed) > 100
    assert set(executed.values()) == {1}
    assert worker.values("dead.letters") == []
    assert worker.prices_refused == []


def test_the_installation_is_read_from_the_environment() -> None:
    here = Installation.from_env({"KAFKA_BOOTSTRAP_SERVERS": "k:1", "OBOL_NAMESPACE": "a", "OBOL_PARTITIONS": "3"})
    assert (here.bootstrap_servers, here.topic("obol.clock"), here.group, here.partitions) == (
        "k:1",
        "a.obol.clock",
        "a.obol",
        3,
    )
    assert Installation.from_env({"OBOL_PARTITIONS": ""}).partitions == 8
    with pytest.raises(ValueError, match="OBOL_PARTITIONS is 'x'; set it to a whole number of 1 or more"):
        Installation.from_env({"OBOL_PARTITIONS": "x"})
