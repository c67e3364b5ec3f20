from __future__ import annotations

import json
from typing import Any

import pytest

from streams.cli.failure import Failure
from streams.cli.parcels import parcel, parcels
from topics.catalogue import ACCOUNTS, CLOCK, COMMANDS, HEARTBEATS, PRICES, PROGRESS

STOP = {"type": "stop_deployment", "org_id": "acme", "deployment_id": "chat"}


def value(one: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(one.value)
    return found


def test_an_id_is_made_where_there_is_none_and_never_the_same() -> None:
    ids = {value(parcel(COMMANDS, STOP))["command_id"] for _ in range(3)}
    assert len(ids) == 3
    assert value(parcel(COMMANDS, {**STOP, "command_id": "mine"}))["command_id"] == "mine"
    assert "event_id" in value(parcel(ACCOUNTS, {"type": "org_suspended", "org_id": "acme"}))
    assert value(parcel(HEARTBEATS, {"org_id": "acme", "replica_id": "r"})) == {"org_id": "acme", "replica_id": "r"}


def test_raw_bytes_are_sent_as_they_are_unless_an_id_is_missing() -> None:
    text = '{ "org_id":"acme", "replica_id":"r", "more": 1.50 }'
    assert parcels(HEARTBEATS, text)[0].value == text.encode()
    lacking = '{ "org_id":"acme", "replica_id":"r", "status":"RUNNING", "more": 1.50 }'
    made = parcels(PROGRESS, lacking)[0]
    assert value(made).keys() == {"org_id", "replica_id", "status", "more", "event_id"}


def test_the_org_decides_the_place() -> None:
    # Kafka's own default partitioner puts the key "acme" there: murmur2("acme") & 0x7fffffff = 865_835_268.
    draft = parcel(COMMANDS, STOP).drafts(8, 5)[0]
    assert (draft.topic, draft.partition, draft.key, draft.timestamp_ms) == ("user.commands", 4, b"acme", 5)


def test_a_tick_goes_everywhere_and_a_price_to_its_only_place() -> None:
    ticks = parcel(CLOCK, {"type": "tick"}).drafts(3, None)
    assert [(draft.partition, draft.key) for draft in ticks] == [(0, None), (1, None), (2, None)]
    price = parcel(PRICES, {"profile": "disk", "price": "1", "currency": "JPY"}).drafts(1, None)
    assert [(draft.partition, draft.key) for draft in price] == [(0, b"disk")]


def test_one_object_over_several_lines_and_one_a_line() -> None:
    one = '{"org_id": "acme",\n "replica_id": "r"}'
    assert len(parcels(HEARTBEATS, one)) == 1
    many = '{"org_id":"acme","replica_id":"r1"}\n\n{"org_id":"acme","replica_id":"r2"}\n'
    assert [one.model.replica_id for one in parcels(HEARTBEATS, many)] == ["r1", "r2"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "got nothing"),
        ("  \n ", "got nothing"),
        ("[]", "no object"),
        ("7", "no object"),
        ('{"org_id":"acme"}', "replica_id: field required"),
        ('{"org_id":"acme","replica_id":"r"}\n{"org_id":', "line 2 is no JSON"),
        ('{"org_id":"acme","replica_id":"r"}\n{"org_id":"acme"}', "line 2: nothing was sent"),
        ('{"org_id":"acme","replica_id":NaN}', "no UTF-8 JSON object"),
        ('{"org_id":"acme","replica_id":"\udcff"}', "no UTF-8 JSON object"),
        ("[" * 100_000, "no JSON"),
        (json.dumps({"org_id": "acme", "replica_id": "r", "more": "x" * 70_000}), "65536"),
        (json.dumps({"org_id": "acme", "replica_id": "\u202e\x1b[2J"}), "replica_id"),
    ],
)
def test_what_is_no_good_is_not_sent(text: str, words: str) -> None:
    with pytest.raises(Failure) as told:
        parcels(HEARTBEATS, text)
    assert words in str(told.value)
    assert told.value.code == 2
    assert str(told.value).isprintable()
