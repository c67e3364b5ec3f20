"""`glance` reads what the model reads, or nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.heartbeats import Heartbeat
from tests.unit.topics.test_codec import ANY_VALUE, BAD, GOOD, STRAYS, nested, with_unknown
from topics.catalogue import HEARTBEATS
from topics.codec import Rejected, decode
from topics.glance import MAX_GLANCE_BYTES, glance


def assert_agrees(values: list[bytes | None]) -> None:
    found = glance(values)
    if found is None:
        return
    for value, item in zip(values, found, strict=True):
        exact = decode(HEARTBEATS, value)
        if isinstance(exact, Rejected):
            # The form of an id is not checked; everything else is.
            assert exact.reason == "invalid"
            assert "should match pattern" in exact.error or "characters" in exact.error
        else:
            assert exact == Heartbeat(org_id=item.org_id, replica_id=item.replica_id)


@pytest.mark.parametrize("name", STRAYS)
def test_unusual_valid_values(name: str) -> None:
    assert_agrees([STRAYS[name], GOOD])


@pytest.mark.parametrize("name", BAD)
def test_bad_values(name: str) -> None:
    value, _ = BAD[name]
    assert_agrees([GOOD, value])


JSON_TEXT = st.recursive(
    st.sampled_from(
        [
            b"1", b"-0", b"01", b"1.", b".5", b"1e5", b"1e", b"1e999", b"9" * 4_301, b"true", b"nul", b"null", b"NaN",
            b"Infinity", b'"x"', b'"\\ud800"', b'"\\q"', b'"\x01"', b'"\xff"', b'"\\u00e9"', b'"\xc3\xa9"', b'"', b"",
        ]
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4).map(lambda items: b"[" + b",".join(items) + b"]"),
        st.lists(st.tuples(st.sampled_from([b'"a"', b'"org_id"', b"1", b'"\xff"']), inner), max_size=4).map(
            lambda items: b"{" + b",".join(key + b":" + value for key, value in items) + b"}"
        ),
    ),
    max_leaves=8,
)  # fmt: skip
FIELDS = st.sampled_from([b'"org_id"', b'"replica_id"', b'"at"', b'"org\\u005fid"', b'""'])
IDS = st.sampled_from([b'"o"', b'"r"', b'"a b"', b'""', b'"' + b"x" * 129 + b'"', b"null", b"7"])
OBJECT = st.lists(st.tuples(FIELDS, st.one_of(IDS, JSON_TEXT)), max_size=5).map(
    lambda items: b"{" + b" , ".join(key + b":" + value for key, value in items) + b"}"
)
VALUE = st.one_of(ANY_VALUE, OBJECT, JSON_TEXT.map(with_unknown), st.integers(28, 36).map(nested))


@given(st.lists(st.one_of(st.just(GOOD), VALUE), min_size=1, max_size=4))
def test_it_agrees_with_the_model(values: list[bytes | None]) -> None:
    assert_agrees(values)


def test_usual_heartbeats_are_read() -> None:
    more = b'{"event_id":"e1","replica_id":"r","org_id":"o","at":"2026-11-29T20:14:00.000Z","type":"heartbeat"}'
    assert [(item.org_id, item.replica_id) for item in glance([GOOD, more]) or []] == [("o", "r")] * 2
    assert glance([]) == []


def test_a_value_with_room_for_a_huge_integer_is_left_to_the_model() -> None:
    longest = GOOD + b" " * (MAX_GLANCE_BYTES - len(GOOD))
    assert glance([longest]) is not None
    assert glance([longest + b" "]) is None
