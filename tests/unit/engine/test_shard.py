"""A shard with the real rules and without a broker: what happens to each record, and the content of commits."""

from __future__ import annotations

import base64
import json
import re
from typing import Any

import pytest

from streams.billing.prices import Prices
from streams.engine import shard as shards
from streams.engine.fatal import Accident, AccidentError
from streams.engine.headers import REROUTED
from streams.engine.merge import Damage, Unreadable
from streams.engine.position import FORMAT, KEY, TABLE, Position, decode_position, encode_position
from streams.engine.rowcodec import encode_row
from streams.engine.shard import Phase, Shard, ShardError
from streams.limits import HOUR_MS, MINUTE_MS
from streams.replay.driver import LogRecord, ShardDriver
from streams.rules.context import Switches
from streams.rules.rows import CommandMemory, Org, row_key
from topics.catalogue import (
    ACCOUNTS,
    CLOCK,
    COMMANDS,
    DEAD_LETTERS,
    HEARTBEATS,
    PRICES,
    PROGRESS,
    REPORTS,
    RESULTS,
    USAGE,
)
from topics.partitioner import partition_of

T0 = 1_764_417_600_000  # 2025-11-29T12:00:00Z
PROFILE = "dedicated.h100.1x"
KIB = 1_024


def command(command_id: str = "c1", **fields: Any) -> dict[str, Any]:
    return {
        "command_id": command_id,
        "org_id": "o",
        "type": "create_deployment",
        "deployment_id": "d",
        "model": "m",
        "gpu_type": "h100",
        "gpu_count": 1,
        **fields,
    }


def callback(event_id: str, status: str, message: str = "", **fields: Any) -> dict[str, Any]:
    return {"event_id": event_id, "org_id": "o", "replica_id": "d-r1", "status": status, "message": message, **fields}


def running(driver: ShardDriver, at_ms: int = T0) -> None:
    """One dedicated replica, running from `at_ms`."""
    driver.price(PROFILE, "100", at_ms - HOUR_MS)
    driver.send(COMMANDS.name, command(), at_ms - MINUTE_MS)
    driver.send(PROGRESS.name, callback("e1", "RUNNING", "healthy"), at_ms)


def only(records: list[LogRecord]) -> LogRecord:
    assert len(records) == 1
    return records[0]


def nested(depth: int) -> bytes:
    return b'{"org_id":"o","a":' + b"[" * (depth - 1) + b"]" * (depth - 1) + b"}"


@pytest.mark.parametrize(
    ("topic", "value", "reason", "error"),
    [
        (HEARTBEATS.name, b'"' + b"a" * (64 * KIB) + b'"', "too_large", "65538 bytes"),
        (HEARTBEATS.name, b"", "undecodable", "empty"),
        (HEARTBEATS.name, None, "undecodable", "empty"),
        (HEARTBEATS.name, b"\xff\xfe", "undecodable", ""),
        (HEARTBEATS.name, b"[]", "undecodable", "no object"),
        (HEARTBEATS.name, b'{"org_id":"o","replica_id":NaN}', "undecodable", ""),
        (HEARTBEATS.name, b'{"org_id":"o","replica_id":"\\ud800"}', "undecodable", ""),
        (HEARTBEATS.name, nested(33), "undecodable", "33 deep"),
        (HEARTBEATS.name, nested(32), "invalid", "replica_id"),
        (HEARTBEATS.name, {"org_id": "o", "replica_id": 5}, "invalid", "replica_id"),
        (HEARTBEATS.name, {"org_id": "o", "replica_id": "r"}, "unknown_replica", "r"),
        (PROGRESS.name, callback("e1", "RUNNING"), "unknown_replica", "d-r1"),
        (PROGRESS.name, callback("e1", "SLEEPING"), "invalid", "status"),
        (
            REPORTS.name,
            {"event_id": "e", "org_id": "o", "instance_id": "i", "report": "workload_up"},
            "unknown_instance",
            "i",
        ),
        ("inference.requests", {"org_id": "o", "deployment_id": "d"}, "unknown_deployment", "d"),
        (
            ACCOUNTS.name,
            {"event_id": "e", "org_id": "o", "type": "balance_updated", "balance": 5},
            "invalid",
            "balance",
        ),
        (COMMANDS.name, {"org_id": "o", "type": "stop_deployment"}, "invalid", "command_id"),
        (COMMANDS.name, {"command_id": "c", "org_id": "-", "type": "stop_deployment"}, "invalid", "org_id"),
        (CLOCK.name, {"type": "tock"}, "invalid", "type"),
    ],
)
def test_a_record_that_cannot_be_applied_becomes_a_dead_letter(
    topic: str, value: bytes | dict[str, Any] | None, reason: str, error: str
) -> None:
    driver = ShardDriver()
    sent = driver.send(topic, value, T0, key="k", partition=0)
    driver.run()
    letter = only(driver.records(DEAD_LETTERS.name))
    assert (letter.key, letter.partition, letter.timestamp) == (None, 0, T0)
    content = letter.json
    assert error in content.pop("error")
    raw = sent.value
    cut = raw[: 64 * KIB] if raw is not None else None
    expected = {
        "reason": reason,
        "topic": topic,
        "partition": 0,
        "offset": 0,
        "timestamp": T0,
        "key_base64": base64.b64encode(b"k").decode(),
        "truncated": cut != raw,
    }
    if cut is not None:
        expected["value_base64"] = base64.b64encode(cut).decode()
    assert content == expected
    assert driver.position().counts == {"read": {topic: 1}, "dead": {reason: 1}}
    assert driver.shards[0].as_of == T0


def test_an_invalid_record_does_not_affect_others() -> None:
    driver = ShardDriver()
    running(driver)
    for at, value in enumerate([b'{"org_id":"o","replica_id":"d-r1"}', b"{", b'{"org_id":"o","replica_id":"d-r1"}'], 1):
        driver.send(HEARTBEATS.name, value, T0 + at * 1_000, partition=0)
    driver.run()
    assert only(driver.records(DEAD_LETTERS.name)).json["offset"] == 1
    assert driver.count("applied", HEARTBEATS.name) == 2
    replica = driver.store().orgs["o"].replicas["d-r1"]
    assert replica.health_checked_at == T0 + 3_000


@pytest.mark.parametrize(
    ("value", "result"),
    [
        (command(gpu_count=17), {"code": "INVALID", "status": 400, "target": "d"}),
        (command(type="explode"), {"code": "INVALID", "status": 400}),
        (
            {"command_id": "c1", "org_id": "o", "type": "stop_deployment", "deployment_id": "d"},
            {"code": "NOT_FOUND", "status": 404, "target": "d"},
        ),
    ],
)
def test_an_invalid_command_with_valid_ids_gets_a_result_instead(value: dict[str, Any], result: dict[str, Any]) -> None:
    driver = ShardDriver()
    driver.send(COMMANDS.name, value, T0)
    driver.run()
    assert driver.records(DEAD_LETTERS.name) == []
    answer = only(driver.records(RESULTS.name))
    content = answer.json
    assert {name: content.get(name) for name in result} == result
    assert (content["command_id"], content["outcome"], answer.key) == ("c1", "rejected", b"o")
    assert driver.position().counts["applied"] == {COMMANDS.name: 1}


@pytest.mark.parametrize("at_ms", [-1, -T0, 253_402_300_800_000, 2**63 - 1])
@pytest.mark.parametrize("sent", ["a command", "a bad command", "a misplaced record", "a tick", "a heartbeat"])
def test_a_record_whose_timestamp_is_out_of_range_is_invalid_and_does_not_change_as_of(sent: str, at_ms: int) -> None:
    driver = ShardDriver(partitions=4)
    org, home, other = misplaced(4)
    create: dict[str, Any] = {"command_id": "c", "org_id": org, "type": "create_deployment", "deployment_id": "d"}
    create |= {"model": "m", "gpu_type": "h100", "gpu_count": 1, "serving": "serverless"}
    driver.send(ACCOUNTS.name, {"event_id": "e", "org_id": org, "type": "org_reinstated"}, T0)
    driver.tick(T0)
    driver.run()
    before = driver.position(home)
    times, as_of = dict(before.times), before.as_of
    match sent:
        case "a command":
            driver.send(COMMANDS.name, create, at_ms)
        case "a bad command":
            driver.send(COMMANDS.name, create | {"gpu_count": 0}, at_ms)
        case "a misplaced record":
            driver.send(HEARTBEATS.name, {"org_id": org, "replica_id": "d-r1"}, at_ms, partition=other)
        case "a tick":
            driver.send(CLOCK.name, {"type": "tick"}, at_ms, partition=home)
        case _:
            driver.send(HEARTBEATS.name, {"org_id": org, "replica_id": "d-r1"}, at_ms)
    driver.run()
    letter = only(driver.records(DEAD_LETTERS.name))
    assert (letter.json["reason"], letter.json["timestamp"], letter.timestamp) == ("invalid", at_ms, T0)
    assert letter.partition == (other if sent == "a misplaced record" else home)
    assert "outside the years 1970 to 9999" in letter.json["error"]
    assert (driver.position(home).times, driver.position(home).as_of) == (times, as_of)
    assert driver.records(RESULTS.name) == []
    # It is not remembered: the same command is accepted, at a time that is one.
    driver.send(COMMANDS.name, create, T0 + 1)
    driver.run()
    assert only(driver.records(RESULTS.name)).json["outcome"] == "accepted"


def test_stored_times_out_of_range_are_removed() -> None:
    shard = new_shard()
    poisoned = Position(as_of=2**60, times={COMMANDS.name: T0, HEARTBEATS.name: 2**60}, offsets={HEARTBEATS.name: 9})
    shard.restore(TABLE, [(KEY, encode_position(poisoned))])
    shard.start({})
    assert (shard.as_of, shard.position.times) == (T0, {COMMANDS.name: T0})


@pytest.mark.parametrize(("reason", "truncated"), [("too_large", True), ("undecodable", False)])
def test_a_record_that_can_t_be_read_is_a_dead_letter(reason: Any, truncated: bool) -> None:  # noqa: FBT001 - a column
    driver = ShardDriver()
    running(driver)
    driver.run()
    one, _, two = (driver.send(HEARTBEATS.name, {"org_id": "o", "replica_id": "d-r1"}, T0 + at) for at in range(3))
    bad = Unreadable(HEARTBEATS.name, 0, 1, T0 + 1, b"k", b"v", reason, "what it is", truncated)
    driver.shards[0].merge.feed(HEARTBEATS.name, [one, bad, two], 0, 3, asked=0)
    driver.run()
    letter = only(driver.records(DEAD_LETTERS.name))
    assert (letter.json["reason"], letter.json["error"], letter.json["offset"]) == (reason, "what it is", 1)
    assert (letter.json["key_base64"], letter.json["value_base64"]) == ("aw==", "dg==")
    assert (letter.json["truncated"], letter.timestamp) == (truncated, T0 + 1)
    assert driver.position(0).counts["applied"][HEARTBEATS.name] == 2


def test_a_shard_is_blocked_by_a_refused_commit_or_by_an_input_that_can_t_be_read() -> None:
    shard = new_shard()
    found = [shard.blocked]
    for damage, refusal in ((Damage(7, "a bit"), None), (Damage(7, "a bit"), "topic t refuses"), (None, None)):
        shard.merge.block(PRICES.name, damage)
        shard.refusal = refusal
        found.append(shard.blocked)
    assert found == [None, "croesus.prices partition 0 can't be read at offset 7: a bit", "topic t refuses", None]


def misplaced(partitions: int) -> tuple[str, int, int]:
    """An org, its partition, and another one."""
    home = partition_of("acme", partitions)
    return "acme", home, (home + 1) % partitions


@pytest.mark.parametrize(
    "value", [{"org_id": "acme", "replica_id": "r"}, {"org_id": "acme", "replica_id": 5}, {"org_id": "acme"}]
)
def test_a_misplaced_record_is_published_again_where_it_belongs(value: dict[str, Any]) -> None:
    driver = ShardDriver(partitions=4)
    _, home, other = misplaced(4)
    sent = driver.send(HEARTBEATS.name, value, T0, key="k", partition=other)
    driver.run()
    again = only([record for record in driver.records(HEARTBEATS.name) if record.partition == home])
    assert (again.key, again.value, again.timestamp) == (b"k", sent.value, T0)
    assert [name for name, _ in again.headers] == [REROUTED]
    # It is validated in its own partition.
    assert only(driver.records(DEAD_LETTERS.name)).partition == home
    assert driver.position(other).counts == {"read": {HEARTBEATS.name: 1}, "rerouted": {HEARTBEATS.name: 1}}
    assert driver.position(home).count("rerouted") == 0


@pytest.mark.parametrize("value", [b"{", b'{"org_id":"acme","a":"' + b"a" * (64 * KIB) + b'"}'])
def test_a_too_large_or_undecodable_record_is_not_rerouted(value: bytes) -> None:
    driver = ShardDriver(partitions=4)
    _, _, other = misplaced(4)
    driver.send(HEARTBEATS.name, value, T0, partition=other)
    driver.run()
    assert only(driver.records(DEAD_LETTERS.name)).partition == other


@pytest.mark.parametrize(
    ("headers", "is_kept"),
    [
        ((("n", bytes(16 * KIB - 1)),), True),
        ((("n", bytes(16 * KIB)),), False),
        ((("\N{GRINNING FACE}" * 4_096, b""),), True),
        ((("\N{GRINNING FACE}" * 4_097, b""),), False),
        ((("", None),) * 1_000, True),
        ((("", None),) * 1_001, False),
    ],
    ids=["bytes", "a byte more", "emoji", "an emoji more", "headers", "a header more"],
)
def test_a_misplaced_record_keeps_its_headers_while_they_are_small(headers: Any, is_kept: bool) -> None:  # noqa: FBT001
    driver = ShardDriver(partitions=4)
    _, home, other = misplaced(4)
    value = b'{"org_id":"acme","replica_id":"r"}'
    driver.send(HEARTBEATS.name, value, T0, key="k", partition=other, headers=headers)
    driver.run()
    again = only([record for record in driver.records(HEARTBEATS.name) if record.partition == home])
    assert again.headers == (*(headers if is_kept else ()), (REROUTED, f"{other}:0".encode()))


def test_a_misplaced_record_that_cannot_be_published_again_becomes_a_dead_letter() -> None:
    driver = ShardDriver(partitions=4)
    _, _, other = misplaced(4)
    driver.send(HEARTBEATS.name, {"org_id": "acme", "replica_id": "r"}, T0, key=b"k" * (513 * KIB), partition=other)
    driver.run()
    letter = only(driver.records(DEAD_LETTERS.name)).json
    assert (letter["reason"], letter["truncated"]) == ("too_large", True)
    assert len(base64.b64decode(letter["key_base64"])) == 64 * KIB


def test_every_record_is_accounted_for_once() -> None:
    driver = ShardDriver(partitions=2)
    home = partition_of("o", 2)
    running(driver)
    driver.send(PROGRESS.name, callback("e1", "RUNNING", "healthy"), T0 + 1)  # a duplicate
    driver.send(PROGRESS.name, callback("e2", "STARTING", "Pulling image"), T0 + 2)  # backwards: ignored
    driver.send(PROGRESS.name, callback("e3", "NONE"), T0 + 3)  # invalid
    driver.send(HEARTBEATS.name, {"org_id": "o", "replica_id": "d-r1"}, T0 + 4, partition=1 - home)  # misplaced
    driver.tick(T0 + 5)
    driver.run()
    read, applied = driver.count("read"), driver.count("applied")
    passed_over = driver.count("ignored") + driver.count("duplicate")
    assert (driver.count("duplicate"), driver.count("ignored"), driver.count("dead"), driver.count("rerouted")) == (
        1,
        1,
        1,
        1,
    )
    assert read == applied + passed_over + driver.count("dead") + driver.count("rerouted")
    assert applied == 1 + 1 + 1 + 2  # the command, the callback, the heartbeat at home, both ticks


def test_a_commit_holds_rows_messages_offsets_and_the_position() -> None:
    driver = ShardDriver()
    running(driver)
    driver.tick(T0 + 2 * MINUTE_MS)
    driver.feed()
    while driver.step():
        pass
    commit = driver.shards[0].drain()
    assert commit is not None
    assert commit.offsets == {COMMANDS.name: 1, PROGRESS.name: 1, CLOCK.name: 1}
    assert set(commit.rows) == {"deployments", "replicas", "windows", "day_usage", "answers", "events", "positions"}
    assert [key for key, _ in commit.rows["replicas"]] == [b"o/d-r1"]
    ((key, written),) = commit.rows[TABLE]
    assert key == KEY
    position = decode_position(written or b"")
    assert position.offsets == commit.offsets
    assert position.as_of == T0 + 2 * MINUTE_MS
    # The last heartbeat is the entry into running; 90 s later the floor of the minute is one minute.
    usage = [message for message in commit.messages() if message.topic == USAGE.name]
    assert [json.loads(message.value or b"")["id"] for message in usage] == ["d-r1:2025-11-29T12:00:00.000Z"]
    assert driver.shards[0].drain() is None


def test_committed_offsets_include_markers() -> None:
    driver = ShardDriver()
    shard = driver.shards[0]
    shard.merge.feed(HEARTBEATS.name, [], 0, 3, asked=0)
    commit = shard.drain()
    assert commit is not None
    assert commit.offsets == {HEARTBEATS.name: 3}


def new_shard(**options: Any) -> Shard:
    return Shard(
        0, partitions=1, prices=Prices(), switches=Switches(), retention_ms=HOUR_MS, stall_timeout_s=2.0, **options
    )


def test_a_shard_that_is_full_waits_for_its_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "MAX_UNCOMMITTED", 3)
    driver = ShardDriver(max_run_records=1)
    for at in range(5):
        driver.send(HEARTBEATS.name, b"{", T0 + at, partition=0)
    driver.feed()
    assert driver.step(100) == 3
    assert driver.step(100) == 0
    driver.commit()
    assert driver.step(100) == 2


def test_large_dead_letters_fill_a_shard_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "MAX_UNCOMMITTED_BYTES", 100 * KIB)
    driver = ShardDriver(max_run_records=1)
    for at in range(3):
        driver.send(HEARTBEATS.name, b"a" * (64 * KIB), T0 + at, partition=0)
    driver.feed()
    assert driver.step(100) == 2  # 64 KiB are over 85 KiB in base64


def test_an_error_in_a_rule_names_the_record_and_commits_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = ShardDriver()
    running(driver)

    def fail(*_: object) -> None:
        msg = "boom"
        raise RuntimeError(msg)

    monkeypatch.setattr(driver.shards[0].accountant, "apply", fail)
    driver.feed()
    with pytest.raises(ShardError, match=r"user\.commands partition 0 offset 0: RuntimeError\('boom'\)"):
        driver.step()


def test_only_an_active_shard_applies_records() -> None:
    shard = new_shard()
    assert (shard.phase, shard.ready, shard.as_of, shard.lag_records) == (Phase.RESTORING, False, None, None)
    shard.suspend()
    assert shard.phase is Phase.RESTORING
    shard.start({})
    assert (shard.phase, shard.ready, shard.lag_records) == (Phase.WORKING, True, 0)
    shard.merge.feed(HEARTBEATS.name, [LogRecord(HEARTBEATS.name, 0, 0, T0, None, b"{")], 0, 1, asked=0)
    shard.merge.set_ends({}, asked=1)
    shard.suspend()
    assert (shard.phase, shard.ready, shard.lag_records) == (Phase.SUSPENDED, True, 1)
    assert shard.advance(0.0, 10) == 0


def test_records_deleted_before_they_were_read_are_logged_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    driver = ShardDriver()
    driver.send(HEARTBEATS.name, b"{", T0, partition=0)
    driver.run()
    ((key, written),) = driver.log.changelogs[TABLE, 0]
    shard = new_shard()
    shard.restore(TABLE, [(key, written)])
    shard.start({HEARTBEATS.name: 7})
    assert shard.merge.queues[HEARTBEATS.name].fetched == 7
    assert "execlet.heartbeats partition 0: the records from offset 1 to 6 were deleted" in caplog.text
    assert shard.counters["lost", HEARTBEATS.name] == 6


def org_row(org_id: str, **fields: Any) -> tuple[bytes, bytes]:
    row = Org(org_id, **fields)
    return row_key(row), encode_row(row)


def test_the_last_record_of_a_row_is_restored_and_a_tombstone_removes_it() -> None:
    shard = new_shard()
    table = CommandMemory.TABLE
    for command_id, words in (("c1", "first"), ("c2", "gone"), ("c1", "last")):
        row = CommandMemory("acme", command_id, T0, words)
        shard.restore(table, [(row_key(row), encode_row(row))])
    shard.restore(table, [(b"acme/c2", None)])
    assert shard.restored_rows == 4
    shard.start({})
    answers = shard.store.orgs["acme"].answers
    assert {command_id: row.value for command_id, row in answers.items()} == {"c1": "last"}


def test_rows_are_decoded_in_steps_while_more_arrive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streams.engine.shard.ROWS_PER_STEP", 2)
    shard = new_shard()
    for number in range(5):
        shard.restore(Org.TABLE, [org_row(f"org{number}")])
    overtaken = shard.decode_rows()
    next(overtaken)
    assert list(shard.store.orgs) == ["org0", "org1"]
    # The partition is assigned again: more is read, and the rest is decoded by two iterators at the same time.
    shard.restore(Org.TABLE, [org_row("org0", suspended=True)])
    shard.restore(CommandMemory.TABLE, [(b"org4/c", encode_row(CommandMemory("org4", "c", T0, "words")))])
    shard.restore(CommandMemory.TABLE, [(b"org4/c", None)])
    for _ in zip(shard.decode_rows(), overtaken, strict=False):
        pass
    shard.start({})
    assert sorted(shard.store.orgs) == [f"org{number}" for number in range(5)]
    assert shard.store.orgs["org0"].org.suspended
    assert not shard.store.orgs["org4"].answers


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        (b"acme/acme", b"{}", "the row 'acme/acme' of orgs, partition 0, can't be restored: Expected `array`"),
        (b"acme", b"[]", "the row 'acme' of orgs, partition 0, can't be restored: b'acme' is not the key of a row"),
        (b"\xff/\xff", b"[]", "of orgs, partition 0, can't be restored: 'utf-8' codec can't decode byte 0xff"),
    ],
)
def test_an_invalid_row_is_named(key: bytes, value: bytes, words: str) -> None:
    shard = new_shard()
    shard.restore(Org.TABLE, [(key, value)])
    with pytest.raises(AccidentError, match=re.escape(words)):
        shard.start({})


def test_a_row_whose_org_belongs_in_another_partition_is_refused() -> None:
    shard = Shard(
        0,
        partitions=2,
        prices=Prices(),
        switches=Switches(),
        retention_ms=HOUR_MS,
        id_retention_ms=HOUR_MS,
        stall_timeout_s=2.0,
    )
    here, elsewhere = (
        next(org_id for org_id in map("org-{}".format, range(100)) if partition_of(org_id, 2) == home)
        for home in (0, 1)
    )
    for org_id in (here, elsewhere):
        shard.restore(Org.TABLE, [org_row(org_id, suspended=True)])
    with pytest.raises(AccidentError, match=f"the row '{elsewhere}/{elsewhere}' of orgs is in partition 0, but") as end:
        shard.start({})
    assert end.value.accident is Accident.MISPLACED_ROW


def test_a_position_holds_where_the_changelogs_end_after_its_transaction() -> None:
    driver = ShardDriver()
    running(driver)
    driver.feed()
    while driver.step():
        pass
    shard = driver.shards[0]
    shard.stamp = lambda position: setattr(position, "worker", "http://a")
    ends = {"orgs": 7, "replicas": 11, "seen": 5, TABLE: 3}
    commit = shard.drain(ends)
    assert commit is not None
    ((_, written),) = commit.rows[TABLE]
    position = decode_position(written or b"")
    # The rows and the marker; of a table without rows, where it was.
    assert position.changelogs == {"orgs": 7, "replicas": 13, "seen": 5, TABLE: 5} | (
        {"orgs": 7 + len(commit.rows["orgs"]) + 1} if "orgs" in commit.rows else {}
    )
    assert commit.changelogs == position.changelogs
    assert (position.worker, position.format) == ("http://a", FORMAT)


def test_counters_are_as_of_the_last_commit() -> None:
    driver = ShardDriver()
    driver.send(HEARTBEATS.name, b"{", T0, partition=0)
    driver.feed()
    driver.step()
    assert driver.shards[0].counters == {}
    driver.commit()
    counted = {("read", HEARTBEATS.name): 1, ("dead", "undecodable"): 1}
    assert driver.shards[0].counters == counted
    driver.crash()
    assert driver.shards[0].counters == counted
