"""The contract's Conventions: types, bounds, the org's partition, isolation, and dead letters."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.outside import rfc3339

if TYPE_CHECKING:
    from tests.support.outside import Outside, ReadRecord, Stored

pytestmark = pytest.mark.kafka

KIB_64 = 65_536
INT64_MAX = 2**63 - 1
GONE = object()
NOT_AN_INTEGER: tuple[Any, ...] = (True, 1.0, "1", 1.5, [1], {}, INT64_MAX + 1, -(2**63) - 1, 10**30)
NOT_AN_ID = (None, GONE, "", 1, True, "-a", ".a", "_a", "a b", "a/b", "é", "a:b", ["a"], "a\n")
NOT_A_STRING: tuple[Any, ...] = (1, True, 1.5, [], {})
LONG_ID, LONG_ENTITY_ID = "i" * 129, "i" * 113

# By topic: a valid body (its entity unknown), then values of each field that make it `invalid`.
WELL_FORMED: dict[str, dict[str, Any]] = {
    "croesus.accounts": {"event_id": "e", "type": "balance_updated", "balance": "1"},
    "inference.requests": {"deployment_id": "unknown"},
    "execlet.progress": {"event_id": "e", "replica_id": "unknown-r1", "status": "RUNNING"},
    "host.reports": {"event_id": "e", "instance_id": "unknown", "report": "launch_failed"},
    "execlet.heartbeats": {"replica_id": "unknown-r1"},
}
NOT_MONEY = (
    None,
    GONE,
    1,
    1.5,
    True,
    "",
    "1e3",
    "1.",
    ".5",
    "+1",
    " 1",
    "1 ",
    "NaN",
    "1" * 19,
    "0." + "1" * 19,
    "1,0",
    "−1",
    "\u0661",
    "1\n",
)
BAD: dict[str, dict[str, tuple[Any, ...]]] = {
    "croesus.accounts": {
        "event_id": (*NOT_AN_ID, LONG_ID),
        "type": (None, GONE, "", "closed", 1, "BALANCE_UPDATED"),
        "balance": NOT_MONEY,
        "sequence": NOT_AN_INTEGER,
    },
    "inference.requests": {
        "deployment_id": (*NOT_AN_ID, LONG_ENTITY_ID),
        "count": (*NOT_AN_INTEGER, 0, -1),
    },
    "execlet.progress": {
        "event_id": (*NOT_AN_ID, LONG_ID),
        "replica_id": (*NOT_AN_ID, LONG_ID),
        "status": (None, GONE, "", "running", "STOPPED", 1),
        "message": NOT_A_STRING,
    },
    "host.reports": {
        "event_id": (*NOT_AN_ID, LONG_ID),
        "instance_id": (*NOT_AN_ID, LONG_ENTITY_ID),
        "report": (None, GONE, "", "WORKLOAD_UP", "exploded", 1),
        "message": NOT_A_STRING,
        "reached_host": ("true", 1, 0, 1.0, [], {}),
    },
    "execlet.heartbeats": {"replica_id": (*NOT_AN_ID, LONG_ID)},
}


def with_field(body: dict[str, Any], name: str, value: Any) -> dict[str, Any]:
    """Return the body with one field changed or removed."""
    return {k: v for k, v in {**body, name: value}.items() if v is not GONE}


def letter(obol: Outside, topic: str, stored: Stored) -> ReadRecord:
    """Return the one dead letter of a record."""
    (found,) = obol.dead_letters(topic, stored)
    return found


@pytest.mark.parametrize("topic", BAD)
def test_a_missing_or_ill_typed_field_is_invalid(obol: Outside, topic: str) -> None:
    org_id = obol.new_id("org")
    cases = [(name, value) for name, values in BAD[topic].items() for value in values]
    cases += [("org_id", value) for value in (*NOT_AN_ID, LONG_ID)]
    sent = []
    for name, value in cases:
        body = with_field({"org_id": org_id, **WELL_FORMED[topic]}, name, value)
        if "event_id" in body and name != "event_id":
            body["event_id"] = obol.new_id("e")
        sent.append((name, value, body, obol.send(topic, body, partition=obol.partition_of(org_id))))
    obol.wait_until_applied()
    for name, value, body, stored in sent:
        letters = obol.dead_letters(topic, stored)
        assert [record.body["reason"] for record in letters] == ["invalid"], (name, value)
        (found,) = letters
        key = body["org_id"].encode() if isinstance(body.get("org_id"), str) else None
        assert set(found.body) - {"key_base64"} == {
            "reason",
            "error",
            "topic",
            "partition",
            "offset",
            "timestamp",
            "value_base64",
            "truncated",
        }
        assert (found.body.get("key_base64") and base64.b64decode(found.body["key_base64"])) == (
            key or found.body.get("key_base64")
        )
        assert json.loads(base64.b64decode(found.body["value_base64"])) == json.loads(json.dumps(body))
        assert found.body["truncated"] is False
        assert found.body["timestamp"] == found.timestamp == obol.now
        assert found.partition == stored.partition
        assert found.key is None
        assert found.body["error"]


def test_what_is_within_bounds_is_no_invalid(obol: Outside) -> None:
    org_id, obscure = "o" * 128, {"future": {"deep": [1.5, None, 10**30]}, "again": -0.0}

    def event() -> dict[str, Any]:
        return {"event_id": obol.new_id("e") + "." + "x" * 100, "org_id": org_id}

    cases = [
        (
            "inference.requests",
            {"org_id": org_id, "deployment_id": "d" * 112, "count": INT64_MAX},
            "unknown_deployment",
        ),
        (
            "inference.requests",
            {"org_id": org_id, "deployment_id": "9", "count": None, **obscure},
            "unknown_deployment",
        ),
        (
            "execlet.progress",
            {**event(), "replica_id": "r" * 128, "status": "VM_CRASH", "message": None},
            "unknown_replica",
        ),
        (
            "execlet.progress",
            {**event(), "replica_id": "A.b_c-9", "status": "FAILED", "message": "m" * 9000},
            "unknown_replica",
        ),
        (
            "host.reports",
            {**event(), "instance_id": "i" * 112, "report": "workload_up", "reached_host": "?"},
            "unknown_instance",
        ),
        (
            "host.reports",
            {**event(), "instance_id": "i", "report": "launch_failed", "reached_host": None},
            "unknown_instance",
        ),
        ("execlet.heartbeats", {"org_id": org_id, "replica_id": "r", **obscure}, "unknown_replica"),
    ]
    sent: list[tuple[str, str | None, Stored]] = [
        (topic, reason, obol.send(topic, body)) for topic, body, reason in cases
    ]
    sent += [  # a field of another type is an unknown field
        ("croesus.accounts", None, obol.account(org_id, kind, balance=7, sequence="x"))
        for kind in ("org_suspended", "org_reinstated")
    ]
    balance = {"balance": "-" + "9" * 18 + "." + "9" * 18, "sequence": INT64_MAX}
    sent.append(("croesus.accounts", None, obol.account(org_id, "balance_updated", **balance)))
    sent.append(("croesus.accounts", None, obol.account("o1", "balance_updated", balance="0", sequence=None)))
    huge_number = b'{"org_id":"o1","replica_id":"r","n":' + b"9" * 4000 + b',"f":1e999}'
    sent.append(
        (
            "execlet.heartbeats",
            "unknown_replica",
            obol.send("execlet.heartbeats", huge_number, partition=obol.partition_of("o1")),
        )
    )
    obol.wait_until_applied()
    for topic, reason, stored in sent:
        found = [record.body["reason"] for record in obol.dead_letters(topic, stored)]
        assert found == ([reason] if reason else []), (topic, reason, stored, obol.dead_letters(topic, stored))


def nested(depth: int) -> bytes:
    """Return a heartbeat of `o1` with an unknown field nested `depth` deep, the outer object being 1."""
    return b'{"org_id":"o1","replica_id":"r","x":' + b"[" * (depth - 1) + b"]" * (depth - 1) + b"}"


@pytest.mark.parametrize("topic", [*BAD, "user.commands", "obol.clock"])
def test_too_large_comes_before_undecodable_before_the_rest(obol: Outside, topic: str) -> None:
    here = obol.partition_of("o1")
    padded = b'{"org_id":"o1","x":"' + b"x" * KIB_64 + b'"}'
    exact = b'{"org_id":"o1","type":0,"x":"' + b"x" * (KIB_64 - 31) + b'"}'
    assert len(exact) == KIB_64
    cases: list[tuple[bytes | None, str]] = [
        (b"\xff" * (KIB_64 + 1), "too_large"),
        (padded, "too_large"),
        (exact, "invalid"),
        (b"\xff" * KIB_64, "undecodable"),
        (None, "undecodable"),
        (b"", "undecodable"),
        (b"null", "undecodable"),
        (b"[]", "undecodable"),
        (b'"x"', "undecodable"),
        (b"{", "undecodable"),
        (b"{} {}", "undecodable"),
        (b'{"x":NaN}', "undecodable"),
        (b'{"x":Infinity}', "undecodable"),
        (b'{"x":-Infinity}', "undecodable"),
        (b'{"x":"\\ud800"}', "undecodable"),
        (b'{"\\udc00":1}', "undecodable"),
        (b'{"x":"\xed\xa0\x80"}', "undecodable"),
        (b'{"x":"\xff"}', "undecodable"),
        ('{"x":1}'.encode("utf-16"), "undecodable"),
        (b'{"x":01}', "undecodable"),
        (b"{'x':1}", "undecodable"),
        (nested(33), "undecodable"),
        (b"[" * 60_000, "undecodable"),
        (b"{}", "invalid"),
        (b'{"x":"\\ud83d\\ude00"}', "invalid"),
    ]
    sent = [(value, reason, obol.send(topic, value, partition=here, key=b"k")) for value, reason in cases]
    obol.wait_until_applied()
    for value, reason, stored in sent:
        found = letter(obol, topic, stored)
        assert found.body["reason"] == reason, value and value[:40]
        assert found.body["truncated"] is (len(value or b"") > KIB_64)
        assert base64.b64decode(found.body["key_base64"]) == b"k"
        if value is None:
            assert "value_base64" not in found.body
        else:
            assert base64.b64decode(found.body["value_base64"]) == value[:KIB_64]


def test_thirty_two_deep_is_not_too_deep(obol: Outside) -> None:
    stored = obol.send("execlet.heartbeats", nested(32), partition=obol.partition_of("o1"))
    obol.wait_until_applied()
    assert letter(obol, "execlet.heartbeats", stored).body["reason"] == "unknown_replica"


def test_a_long_key_is_cut_too(obol: Outside) -> None:
    stored = obol.send("execlet.heartbeats", b"?", partition=1, key=b"k" * (KIB_64 + 1))
    obol.wait_until_applied()
    found = letter(obol, "execlet.heartbeats", stored)
    assert found.body["truncated"] is True
    assert len(base64.b64decode(found.body["key_base64"])) == KIB_64
    assert found.body["value_base64"] == base64.b64encode(b"?").decode()


@pytest.mark.parametrize("topic", [*BAD, "user.commands"])
@pytest.mark.parametrize("key", [None, b"by another partitioner"])
def test_a_misplaced_record_goes_to_its_partition(obol: Outside, topic: str, key: bytes | None) -> None:
    org_id = obol.new_id("wanderer")
    right = obol.partition_of(org_id)
    wrong = (right + 1) % obol.partitions
    body = {"event_id": obol.new_id("e"), "command_id": obol.new_id("c"), "type": 5, "org_id": org_id}
    value = json.dumps(body, indent=1).encode()
    obol.advance(1)
    first = obol.send(topic, value, partition=wrong, key=key, headers=[("trace", b"1")])
    obol.wait_until_applied()
    assert not obol.dead_letters(topic, first)
    found = [r for r in obol.stored(topic) if r.value == value and r.partition == right]
    assert [(r.key, r.timestamp, "obol-rerouted" in r.headers) for r in found] == [(key, obol.now, True)]
    obol.wait_until_applied()
    if topic == "user.commands":
        assert obol.result(str(body["command_id"]))["code"] == "INVALID"
    else:
        assert obol.dead_letters(topic, found[0])[0].body["reason"] == "invalid"  # type: ignore[arg-type]


def test_a_record_without_a_key_in_its_partition_stays(obol: Outside) -> None:
    org_id = obol.new_id("keyless")
    value = json.dumps({"org_id": org_id, "replica_id": "r"}).encode()
    stored = obol.send("execlet.heartbeats", value, partition=obol.partition_of(org_id))
    obol.wait_until_applied()
    assert letter(obol, "execlet.heartbeats", stored).body["reason"] == "unknown_replica"
    assert "key_base64" not in letter(obol, "execlet.heartbeats", stored).body
    assert len([r for r in obol.stored("execlet.heartbeats") if r.value == value]) == 1


def test_a_misplaced_record_that_cannot_be_read_stays(obol: Outside) -> None:
    org_id = obol.new_id("wanderer")
    wrong = (obol.partition_of(org_id) + 1) % obol.partitions
    start = b'{"org_id":"' + org_id.encode() + b'"'
    too_large = obol.send("host.reports", start + b',"x":"' + b"x" * KIB_64 + b'"}', partition=wrong)
    torn = obol.send("host.reports", start, partition=wrong)
    obol.wait_until_applied()
    assert letter(obol, "host.reports", too_large).body["reason"] == "too_large"
    assert letter(obol, "host.reports", torn).body["reason"] == "undecodable"


def test_entities_are_looked_up_within_their_org(obol: Outside) -> None:
    ours, theirs = obol.new_id("org"), obol.new_id("org")
    obol.price("dedicated.iso.1x", "1")
    for org_id in (ours, theirs):
        obol.command(
            org_id, "create_deployment", command_id="same", deployment_id="d", model="m", gpu_type="iso", gpu_count=1
        )
    obol.wait_until_applied()
    both = obol.out("command.results", command_id="same")
    assert {(r.body["org_id"], r.body["outcome"]) for r in both} == {(ours, "accepted"), (theirs, "accepted")}
    obol.advance(10)
    obol.progress(ours, "d-r1", "RUNNING", "healthy")
    obol.command(ours, "create_deployment", deployment_id="only", model="m", gpu_type="iso", gpu_count=1)
    obol.advance(10)
    alien = obol.heartbeat(theirs, "only-r1")
    obol.advance(10)
    obol.heartbeat(ours, "d-r1")
    obol.heartbeat(theirs, "d-r1")
    obol.wait_until_applied()
    assert letter(obol, "execlet.heartbeats", alien).body["reason"] == "unknown_replica"
    mine = obol.get(f"/orgs/{ours}/replicas/d-r1").json
    other = obol.get(f"/orgs/{theirs}/replicas/d-r1").json
    assert (mine["status"], mine["last_health_check"]) == ("running", rfc3339(obol.now))
    assert (other["status"], other["last_health_check"], other["windows"]) == ("pending", None, [])
    assert obol.get(f"/orgs/{theirs}/deployments/only").status == 404


def test_rerouted_records_and_dead_letters_are_counted(obol: Outside) -> None:
    text = obol.get("/metrics").text
    assert sum(float(line.split()[-1]) for line in text.splitlines() if "rerouted" in line and not line.startswith("#"))
    letters = {r.body["reason"] for r in obol.out("dead.letters")}
    assert letters
    for reason in letters:
        assert any("dead" in line and f'"{reason}"' in line for line in text.splitlines()), reason
