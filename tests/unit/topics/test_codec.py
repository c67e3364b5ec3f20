"""Decoding: the contract's table of bad records, and batches of valid and invalid records."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.clock import Tick
from schemas.commands import StopDeployment
from schemas.heartbeats import Heartbeat
from schemas.prices import Price, PriceRemoved
from topics.catalogue import CLOCK, COMMANDS, HEARTBEATS, INBOUND, REPORTS, TopicSpec
from topics.codec import MAX_ERROR_CHARS, Rejected, decode, decode_batch, decode_prices

GOOD = b'{"org_id":"o","replica_id":"r"}'
HEARTBEAT = Heartbeat(org_id="o", replica_id="r")


def with_unknown(json_text: bytes) -> bytes:
    return b'{"org_id":"o","replica_id":"r","x":' + json_text + b"}"


def nested(depth: int) -> bytes:
    """Return a heartbeat with `depth` levels of nesting, including its own."""
    return with_unknown(b"[" * (depth - 1) + b"]" * (depth - 1))


STRAYS = {
    "spaces and newlines": b' {\n"org_id" : "o",\r\n\t"replica_id":"r"}\n',
    "unknown fields": with_unknown(b'{"a":[1,2.5,null,true,"\\u00e9"]}'),
    "a duplicate key, the last one counts": b'{"org_id":"p","org_id":"o","replica_id":"r"}',
    "NaN in a string": with_unknown(b'"NaN -Infinity"'),
    "NaN in a key": b'{"org_id":"o","replica_id":"r","NaN":1}',
    "32 deep": nested(32),
    "many brackets side by side": with_unknown(b"[" + b",".join([b"[]"] * 100) + b"]"),
    "brackets in a string": with_unknown(b'"' + b"[{" * 100 + b'"'),
    "brackets after an escaped quote": with_unknown(b'"\\"' + b"[" * 100 + b'\\\\"'),
    "a surrogate pair": with_unknown(b'"\\ud83d\\ude00"'),
    "exactly 65,536 bytes": GOOD + b" " * (65_536 - len(GOOD)),
    "a great float": with_unknown(b"1e999"),
}

BAD = {
    "none": (None, "undecodable"),
    "empty": (b"", "undecodable"),
    "spaces": (b"  ", "undecodable"),
    "no JSON": (b"hello", "undecodable"),
    "half": (GOOD[:-1], "undecodable"),
    "two objects": (GOOD + GOOD, "undecodable"),
    "two objects with a comma": (GOOD + b"," + GOOD, "undecodable"),
    "an array": (b"[" + GOOD + b"]", "undecodable"),
    "a string": (b'"x"', "undecodable"),
    "null": (b"null", "undecodable"),
    "a number": (b"7", "undecodable"),
    "NaN": (with_unknown(b"NaN"), "undecodable"),
    "Infinity": (with_unknown(b"[Infinity]"), "undecodable"),
    "minus Infinity": (with_unknown(b"-Infinity"), "undecodable"),
    "NaN under a key that comes again": (b'{"org_id":"o","replica_id":"r","x":NaN,"x":1}', "undecodable"),
    "a lone surrogate in a value": (with_unknown(b'"\\ud83d"'), "undecodable"),
    "a lone surrogate in a key": (b'{"org_id":"o","replica_id":"r","\\udc00":1}', "undecodable"),
    "no UTF-8": (with_unknown(b'"\xff"'), "undecodable"),
    "UTF-8 of a surrogate": (with_unknown(b'"\xed\xa0\x80"'), "undecodable"),
    "UTF-16": (GOOD.decode().encode("utf-16"), "undecodable"),
    "a byte order mark": (b"\xef\xbb\xbf" + GOOD, "undecodable"),
    "a raw newline in a string": (with_unknown(b'"\n"'), "undecodable"),
    "33 deep": (nested(33), "undecodable"),
    "200 deep": (nested(200), "undecodable"),
    "20,000 deep": (nested(20_000), "undecodable"),
    "33 deep under a key that comes again": (
        b'{"org_id":"o","replica_id":"r","x":' + b"[" * 32 + b"]" * 32 + b',"x":1}',
        "undecodable",
    ),
    "33 deep, objects": (with_unknown(b'{"a":' * 32 + b"1" + b"}" * 32), "undecodable"),
    "65,537 bytes": (GOOD + b" " * (65_537 - len(GOOD)), "too_large"),
    "65,537 bytes of nonsense": (b"x" * 65_537, "too_large"),
    "a missing field": (b'{"org_id":"o"}', "invalid"),
    "a null field": (b'{"org_id":"o","replica_id":null}', "invalid"),
    "an ill-typed field": (b'{"org_id":"o","replica_id":7}', "invalid"),
    "an id with a newline": (b'{"org_id":"o","replica_id":"r\\n"}', "invalid"),
    "an empty object": (b"{}", "invalid"),
}


@pytest.mark.parametrize("name", STRAYS)
def test_unusual_valid_values(name: str) -> None:
    assert decode_batch(HEARTBEATS, [STRAYS[name]]) == [HEARTBEAT]
    assert decode(HEARTBEATS, STRAYS[name]) == HEARTBEAT


@pytest.mark.parametrize("name", BAD)
def test_bad_values(name: str) -> None:
    value, reason = BAD[name]
    before, rejected, after = decode_batch(HEARTBEATS, [GOOD, value, GOOD])
    assert (before, after) == (HEARTBEAT, HEARTBEAT)
    assert isinstance(rejected, Rejected)
    assert rejected.reason == reason
    assert 0 < len(rejected.error) <= MAX_ERROR_CHARS


@pytest.mark.parametrize("name", BAD)
def test_bad_values_of_any_topic(name: str) -> None:
    value, reason = BAD[name]
    for spec in INBOUND:
        if reason != "invalid":
            assert decode(spec, value).reason == reason


NEIGHBOURS = [
    # Joined into an array, the first two would merge and the third would split, which gives three elements again.
    [b'{"a":[{"x":1}', b'{"y":2}]}', GOOD + b"," + GOOD],
    [b'{"org_id":"o","x":"', b'","replica_id":"r"}', GOOD + b"," + GOOD],
    [b'{"org_id":"o"', b'"replica_id":"r"}', GOOD + b"," + GOOD],
    [b"]", b"[", GOOD],
    [b'{"org_id":"o","replica_id":"r"', b"}", GOOD + b"," + GOOD],
]


@pytest.mark.parametrize("values", NEIGHBOURS)
def test_records_of_a_batch_do_not_affect_each_other(values: list[bytes]) -> None:
    decoded = decode_batch(HEARTBEATS, values)
    assert [item.reason if isinstance(item, Rejected) else item for item in decoded] == [
        HEARTBEAT if value == GOOD else "undecodable" for value in values
    ]


PIECES = [
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b'"',
    b"\\",
    b"NaN",
    b"Infinity",
    b"\n",
    b"1",
    b'"org_id"',
    b'"o"',
    b"\xff",
]
ANY_VALUE = st.one_of(
    st.just(GOOD),
    st.sampled_from(sorted(STRAYS.values())),
    st.sampled_from([value for value, _ in BAD.values()]),
    st.lists(st.sampled_from(PIECES), max_size=12).map(b"".join),
    st.builds(lambda value, at: value[:at], st.sampled_from(sorted(STRAYS.values())), st.integers(0, 60)),
    st.integers(28, 36).map(nested),
    st.binary(max_size=8),
)


@given(st.lists(ANY_VALUE, max_size=8))
def test_a_batch_equals_its_records_decoded_one_by_one(values: list[bytes | None]) -> None:
    assert decode_batch(HEARTBEATS, values) == [decode(HEARTBEATS, value) for value in values]


def strict_json(value: bytes) -> Any:
    def refuse(constant: str) -> None:
        raise ValueError(constant)

    content = json.loads(value.decode("utf-8"), parse_constant=refuse)
    json.dumps(content, ensure_ascii=False).encode()
    return content


@given(ANY_VALUE)
def test_undecodable_agrees_with_another_parser(value: bytes | None) -> None:
    """The other parser is Python's, in strict mode. Size and depth have their own tests."""
    decoded = decode(HEARTBEATS, value)
    if isinstance(decoded, Rejected) and (decoded.reason == "too_large" or "deep" in decoded.error):
        return
    try:
        good = value is not None and isinstance(strict_json(value), dict)
    except (ValueError, RecursionError):
        good = False
    assert (isinstance(decoded, Rejected) and decoded.reason == "undecodable") is not good


def test_an_empty_batch() -> None:
    assert decode_batch(HEARTBEATS, []) == []


@pytest.mark.parametrize(
    ("spec", "value", "org_id", "command_id", "target"),
    [
        (HEARTBEATS, b'{"org_id":"o"}', "o", None, None),
        (HEARTBEATS, b'{"org_id":"o o","replica_id":"r"}', None, None, None),
        (HEARTBEATS, b'{"org_id":7}', None, None, None),
        (COMMANDS, b'{"type":"stop_deployment","command_id":"c","org_id":"o","deployment_id":7}', "o", "c", None),
        (
            COMMANDS,
            b'{"type":"create_deployment","command_id":"c","org_id":"o","deployment_id":"d","instance_id":"i"}',
            "o",
            "c",
            "d",
        ),
        (COMMANDS, b'{"type":"deploy_instance","command_id":"c","org_id":"o","instance_id":"i"}', "o", "c", "i"),
        (COMMANDS, b'{"type":"nonsense","command_id":"c","org_id":"o","instance_id":"i"}', "o", "c", None),
        (COMMANDS, b'{"type":["x"],"command_id":"c","org_id":"o"}', "o", "c", None),
        (COMMANDS, b'{"command_id":"c","org_id":"o"}', "o", "c", None),
        (COMMANDS, b'{"type":"stop_instance","command_id":"c c","org_id":"o","instance_id":"i"}', "o", None, None),
        (COMMANDS, b'{"type":"stop_instance","command_id":"c","org_id":null,"instance_id":"i"}', None, None, None),
        (REPORTS, b'{"event_id":"e","org_id":"o","instance_id":"i","report":"x","command_id":"c"}', "o", None, None),
    ],
)
def test_an_invalid_record_keeps_the_ids_that_its_result_needs(
    spec: TopicSpec, value: bytes, org_id: str | None, command_id: str | None, target: str | None
) -> None:
    rejected = decode(spec, value)
    assert isinstance(rejected, Rejected)
    assert rejected.reason == "invalid"
    assert (rejected.org_id, rejected.command_id, rejected.target) == (org_id, command_id, target)


@pytest.mark.parametrize(
    ("spec", "value", "words"),
    [
        (HEARTBEATS, b'{"org_id":"o"}', ["replica_id: field required"]),
        (
            COMMANDS,
            (
                b'{"type":"create_deployment","command_id":"c","org_id":"o","deployment_id":"d","model":"m",'
                b'"gpu_type":"h100","gpu_count":17}'
            ),
            ["gpu_count: ", "16"],
        ),
        (
            COMMANDS,
            (
                b'{"type":"deploy_instance","command_id":"c","org_id":"o","instance_id":"i","offer_id":"f",'
                b'"gpu_type":"h100","gpu_count":1,"disk_gb":1,"template":{"mode":"rdp","image":"x"}}'
            ),
            ["template.mode: "],
        ),
        (COMMANDS, b'{"type":"nonsense","command_id":"c","org_id":"o"}', ["type: ", "nonsense", "stop_deployment"]),
        (COMMANDS, b'{"command_id":"c","org_id":"o"}', ["type: missing"]),
        (HEARTBEATS, nested(33), ["33", "32"]),
        (HEARTBEATS, b"x" * 65_537, ["65537", "65536"]),
    ],
)
def test_an_error_names_the_field_and_the_allowed_values(spec: TopicSpec, value: bytes, words: list[str]) -> None:
    error = decode(spec, value).error
    assert all(word in error for word in words), error


def test_the_error_of_a_long_record_is_short() -> None:
    value = json.dumps({"type": "x" * 60_000, "org_id": "o"}).encode()
    assert len(decode(COMMANDS, value).error) == MAX_ERROR_CHARS


def test_other_topics() -> None:
    assert decode_batch(CLOCK, [b'{"type":"tick"}', b'{"type":"tock"}'])[0] == Tick(type="tick")
    stop = b'{"type":"bogus","type":"stop_deployment","command_id":"c","org_id":"o","deployment_id":"d"}'
    assert decode(COMMANDS, stop) == StopDeployment(command_id="c", org_id="o", deployment_id="d")


PRICE = b'{"profile":"disk","price":"0.5","currency":"JPY"}'


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        (b"disk", PRICE, Price(profile="disk", price="0.5", currency="JPY")),
        (b"disk", b"", PriceRemoved("disk")),
        (b"disk", None, PriceRemoved("disk")),
        (b"disc", PRICE, "profile: 'disk', but the record's key is 'disc'"),
        (None, PRICE, "the key is no profile of 1 to 512 characters"),
        (None, None, "the key is no profile of 1 to 512 characters"),
        (b"\xff", None, "the key is no profile of 1 to 512 characters"),
        (b"x" * 513, None, "the key is no profile of 1 to 512 characters"),
        (b"disk", PRICE.replace(b"JPY", b"EUR"), "currency: 'EUR', but this installation's is 'JPY'"),
    ],
)
def test_prices(key: bytes | None, value: bytes | None, expected: object) -> None:
    decoded = decode_prices([(key, value)], "JPY")[0]
    assert (decoded.error if isinstance(decoded, Rejected) else decoded) == expected


@pytest.mark.parametrize("price", [b'"-1"', b"5", b'"1e3"', b'""', b"null"])
def test_bad_prices(price: bytes) -> None:
    (decoded,) = decode_prices([(b"disk", PRICE.replace(b'"0.5"', price))], "JPY")
    assert isinstance(decoded, Rejected)
    assert decoded.error.startswith("price: ")
