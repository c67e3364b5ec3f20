from __future__ import annotations

import json
from typing import Any

import pytest

from streams.cli.failure import Failure
from streams.cli.validation import validate, validate_text
from topics.catalogue import ACCOUNTS, CLOCK, COMMANDS, HEARTBEATS, PRICES, PROGRESS

STOP = {"type": "stop_deployment", "org_id": "acme", "deployment_id": "chat"}


def value(one: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(one.value)
    return found


def test_a_missing_id_is_generated_and_unique() -> None:
    ids = {value(validate(COMMANDS, STOP))["command_id"] for _ in range(3)}
    assert len(ids) == 3
    assert value(validate(COMMANDS, {**STOP, "command_id": "mine"}))["command_id"] == "mine"
    assert "event_id" in value(validate(ACCOUNTS, {"type": "org_suspended", "org_id": "acme"}))
    assert value(validate(HEARTBEATS, {"org_id": "acme", "replica_id": "r"})) == {"org_id": "acme", "replica_id": "r"}


def test_raw_bytes_are_unchanged_unless_an_id_is_missing() -> None:
    text = '{ "org_id":"acme", "replica_id":"r", "more": 1.50 }'
    assert validate_text(HEARTBEATS, text)[0].value == text.encode()
    lacking = '{ "org_id":"acme", "replica_id":"r", "status":"RUNNING", "more": 1.50 }'
    record = validate_text(PROGRESS, lacking)[0]
    assert value(record).keys() == {"org_id", "replica_id", "status", "more", "event_id"}


def test_the_org_determines_the_partition() -> None:
    # As Kafka's default partitioner: murmur2("acme") & 0x7fffffff = 865_835_268.
    draft = validate(COMMANDS, STOP).drafts(8, 5)[0]
    assert (draft.topic, draft.partition, draft.key, draft.timestamp_ms) == ("user.commands", 4, b"acme", 5)


def test_a_tick_goes_to_all_partitions_and_a_price_to_the_only_one() -> None:
    ticks = validate(CLOCK, {"type": "tick"}).drafts(3, None)
    assert [(draft.partition, draft.key) for draft in ticks] == [(0, None), (1, None), (2, None)]
    price = validate(PRICES, {"profile": "disk", "price": "1", "currency": "JPY"}).drafts(1, None)
    assert [(draft.partition, draft.key) for draft in price] == [(0, b"disk")]


def test_one_object_on_several_lines_or_one_per_line() -> None:
    one = '{"org_id": "acme",\n "replica_id": "r"}'
    assert len(validate_text(HEARTBEATS, one)) == 1
    many = '{"org_id":"acme","replica_id":"r1"}\n\n{"org_id":"acme","replica_id":"r2"}\n'
    assert [one.model.replica_id for one in validate_text(HEARTBEATS, many)] == ["r1", "r2"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is empty"),
        ("  \n ", "is empty"),
        ("[]", "not a JSON object"),
        ("7", "not a JSON object"),
        ('{"org_id":"acme"}', "replica_id: field required"),
        ('{"org_id":"acme","replica_id":"r"}\n{"org_id":', "line 2 is not JSON"),
        ('{"org_id":"acme","replica_id":"r"}\n{"org_id":"acme"}', "line 2: nothing was sent"),
        ('{"org_id":"acme","replica_id":NaN}', "no UTF-8 JSON object"),
        ('{"org_id":"acme","replica_id":"\udcff"}', "no UTF-8 JSON object"),
        ("[" * 100_000, "not JSON"),
        (json.dumps({"org_id": "acme", "replica_id": "r", "more": "x" * 70_000}), "65536"),
        (json.dumps({"org_id": "acme", "replica_id": "\u202e\x1b[2J"}), "replica_id"),
    ],
)
def test_invalid_records_are_refused(text: str, words: str) -> None:
    with pytest.raises(Failure) as failure:
        validate_text(HEARTBEATS, text)
    assert words in str(failure.value)
    assert failure.value.code == 2
    assert str(failure.value).isprintable()
