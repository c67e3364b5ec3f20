"""Rows come back from their changelogs as they went in, and share their strings."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import msgspec
import pytest

from streams.billing.windows import Origin, Window, WindowMeter
from streams.engine.rowcodec import TYPES, RowReader, encode_row
from streams.lifecycle.deployment import DeploymentStatus
from streams.lifecycle.instance import InstanceState, Order
from streams.lifecycle.replica import FailReason, ReplicaStatus
from streams.rules.rows import ROW_TYPES, Answer, Deployment, Instance, OrderCount, Org, Replica, Row, Seen, row_key

T0 = 1_764_417_600_000


def window(meter: WindowMeter, owner: str, window_id: str, **ended: Any) -> Window:
    beat = T0 if meter is WindowMeter.DEDICATED else None
    deployment = "d" if meter is WindowMeter.DEDICATED else None
    return Window(
        "o", window_id, meter, owner, deployment, "dedicated.h100.1x", 1, T0, T0, beat, Origin("t", 7, T0), **ended
    )


ROWS: tuple[Any, ...] = (
    Org("o"),
    Org("o", "-12.5", 7, T0, suspended=True),
    Deployment("o", "d", DeploymentStatus.CREATED, "m", "h100", 2, "dedicated", 1, None, T0, T0),
    Deployment("o", "d", DeploymentStatus.FAILED, "m", "h100", 2, "serverless", 0, 60, T0, T0, 1, 2, 3, T0 + 1),
    Replica("o", "d-r1", "d", ReplicaStatus.PENDING, T0),
    Replica("o", "d-r1", "d", ReplicaStatus.FAILED, T0, FailReason.CONTAINER_CRASHED, T0, 1, T0, 4, T0),
    Replica("o", "d-r1", "d", ReplicaStatus.RUNNING, T0, window=window(WindowMeter.DEDICATED, "d-r1", "d-r1.w1")),
    Instance("o", "i", InstanceState.CREATING, "f", "a100", 1, 50, "ssh", "img", True, T0, T0),
    Instance(
        "o",
        "i",
        InstanceState.RUNNING,
        "f",
        "a100",
        1,
        50,
        "ssh",
        "img",
        False,
        T0,
        T0,
        window=window(WindowMeter.GPU, "i", "i.gpu.w1"),
        orders={Order.CREATE: OrderCount(1, 1, T0), Order.STOP: OrderCount(3, 2, T0)},
        error_message='a "quoted" line\n',
    ),
    window(WindowMeter.DISK, "i", "i.disk.w2", ended_at=T0 + 5, closed_by=Origin("t", 8, T0 + 5), billed_ms=5),
    Answer("o", "c", T0, '{"command_id":"c"}'),
    Seen("o", "execlet.progress", "e", T0),
)


def plain(row: Any) -> Any:
    """A row as nested tuples, since rows compare by identity."""
    if isinstance(row, dict):
        return {key: plain(value) for key, value in row.items()}
    if hasattr(row, "__dataclass_fields__"):
        return type(row), tuple(plain(getattr(row, field.name)) for field in fields(row))
    return row


def test_there_is_an_example_of_every_type() -> None:
    assert {type(row) for row in ROWS} == set(ROW_TYPES)
    assert list(TYPES.values()) == list(ROW_TYPES)


@pytest.mark.parametrize("owner", [Replica, Instance])
def test_an_owners_window_is_its_last_field(owner: Any) -> None:
    assert [field.name for field in fields(owner)].index("window") == len(fields(owner)) - 1


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.TABLE)
def test_a_row_comes_back_as_it_was(row: Row) -> None:
    again = RowReader().read(row.TABLE, row_key(row), encode_row(row))
    assert plain(again) == plain(row)
    assert encode_row(again) == encode_row(row)


def test_a_key_is_taken_apart() -> None:
    row = Seen("acme", "execlet.progress", "e-1", T0)
    assert RowReader.split(row_key(row)) == ("acme", "execlet.progress/e-1")


def test_strings_are_shared() -> None:
    reader = RowReader()
    replica = Replica("o", "d-r1", "d", ReplicaStatus.RUNNING, T0, window=window(WindowMeter.DEDICATED, "d-r1", "w"))
    first: Any = reader.read("replicas", row_key(replica), encode_row(replica))
    second: Any = reader.read("replicas", row_key(replica), encode_row(replica))
    assert first.window.owner_id is first.replica_id
    assert first.window.org_id is first.org_id is second.org_id
    assert first.window.deployment_id is first.deployment_id is second.deployment_id
    assert first.window.profile is second.window.profile
    assert first.window.opened_by.topic is second.window.opened_by.topic


def test_an_open_window_says_nothing_that_its_owners_row_says() -> None:
    replica = Replica(
        "o", "d-r1", "d", ReplicaStatus.RUNNING, 5, window=window(WindowMeter.DEDICATED, "d-r1", "d-r1.w1")
    )
    assert row_key(replica) == b"o/d-r1"
    # deployment, status, created, fail reason, health check, windows made, meter free at, changes made, ended
    assert encode_row(replica) == (
        b'[["d","running",5,null,null,0,0,0,null],'
        b'["d-r1.w1","dedicated","dedicated.h100.1x",1,%d,%d,%d,["t",7,%d],null,null,0]]' % (T0, T0, T0, T0)
    )


def test_a_row_written_before_it_had_its_last_fields_gets_their_defaults() -> None:
    got: Any = RowReader().read("replicas", b"o/d-r1", b'[["d","pending",5],null]')
    assert plain(got) == plain(Replica("o", "d-r1", "d", ReplicaStatus.PENDING, 5))


def test_an_order_count_of_a_later_version_is_refused() -> None:
    instance = Instance("o", "i", InstanceState.CREATING, "f", "a100", 1, 50, "ssh", "img", True, T0, T0)
    instance.orders[Order.CREATE] = OrderCount(1, 1, T0)
    written = encode_row(instance)
    assert b'{"create":[1,1,%d]}' % T0 in written
    later = written.replace(b'{"create":[1,1,', b'{"create":[1,1,9,')
    with pytest.raises(msgspec.MsgspecError):
        RowReader().read("instances", b"o/i", later)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"o/d-r1", b'{"status":"pending"}'),
        (b"o/d-r1", b'["d","pending",5]'),
        (b"o/d-r1", b'[["d","pending"],null]'),
        (b"o/d-r1", b'[["d","asleep",5],null]'),
        (b"o/d-r1", b'[["d","pending",5],["d-r1.w1"]]'),
        # Written by a later version: to go on without what it says would lose it.
        (b"o/d-r1", b'[["d","pending",5,null,null,0,0,0,null,"new"],null]'),
        (b"o", b'[["d","pending",5],null]'),
        (b"o/d-r1/w1", b'[["d","pending",5],null]'),
    ],
)
def test_what_we_never_wrote_is_refused(key: bytes, value: bytes) -> None:
    with pytest.raises(msgspec.MsgspecError):
        RowReader().read("replicas", key, value)
