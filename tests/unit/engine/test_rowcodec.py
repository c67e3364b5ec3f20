"""Rows come back from their changelogs as they went in, and share their strings."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import msgspec
import pytest

from streams.billing.windows import Origin, Window
from streams.engine.fatal import Accident, AccidentError
from streams.engine.rowcodec import TYPES, RowReader, encode_row
from streams.lifecycle.deployment import DeploymentStatus
from streams.lifecycle.instance import InstanceStage, Order
from streams.lifecycle.replica import FailReason, ReplicaStatus
from streams.rules.rows import (
    ROW_TYPES,
    CommandMemory,
    DayUsage,
    Deployment,
    EventMemory,
    Instance,
    OperatorCommandMemory,
    OrderCount,
    Org,
    Replica,
    Row,
    UsedId,
    WindowCount,
    row_key,
)

T0 = 1_764_417_600_000


def window(meter: str, owner: str, window_id: str, **ended: Any) -> Window:
    heartbeat = T0 if meter == "dedicated" else None
    deployment = "d" if meter == "dedicated" else None
    return Window(
        "o", window_id, meter, owner, deployment, "dedicated.h100.1x", 1, T0, T0, heartbeat, Origin("t", 7, T0), **ended
    )


COUNTS = (WindowCount("dedicated", 1, T0),)

ROWS: tuple[Any, ...] = (
    Org("o"),
    Org("o", "-12.5", 7, T0, suspended=True),
    Deployment("o", "d", DeploymentStatus.CREATED, "m", "h100", 2, "dedicated", 1, None, T0, T0),
    Deployment("o", "d", DeploymentStatus.FAILED, "m", "h100", 2, "serverless", 0, 60, T0, T0, 1, 2, 3, T0 + 1),
    Replica("o", "d-r1", "d", ReplicaStatus.PENDING, T0),
    Replica("o", "d-r1", "d", ReplicaStatus.FAILED, T0, FailReason.CONTAINER_CRASHED, T0, COUNTS, 4, T0),
    Replica("o", "d-r1", "d", ReplicaStatus.RUNNING, T0, window_counts=COUNTS),
    window("dedicated", "d-r1", "d-r1.w1"),
    Instance("o", "i", InstanceStage.CREATING, "f", "a100", 1, 50, "ssh", "img", True, T0, T0),
    Instance(
        "o",
        "i",
        InstanceStage.RUNNING,
        "f",
        "a100",
        1,
        50,
        "ssh",
        "img",
        False,
        T0,
        T0,
        orders={Order.CREATE: OrderCount(1, 1, T0), Order.STOP: OrderCount(3, 2, T0)},
        error_message='a "quoted" line\n',
    ),
    window("gpu", "i", "i.gpu.w1"),
    window("disk", "i.gpu.w3", "i.gpu.w3.disk.w2", ended_at=T0 + 5, closed_by=Origin("t", 8, T0 + 5), billed_ms=5),
    CommandMemory("o", "c", T0, '{"command_id":"c"}'),
    OperatorCommandMemory("o", "c", T0, '{"command_id":"c"}', "d-r1.w1"),
    EventMemory("o", "execlet.progress", "e", T0),
    UsedId("o", "deployment", "d", T0),
    DayUsage("o", "2026-11-29", "instance_gpu_running", "instance.a100.1x", 60_000, 0, "60000000000000000000000"),
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


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.TABLE)
def test_a_decoded_row_equals_the_encoded_one(row: Row) -> None:
    again = RowReader().read(row.TABLE, row_key(row), encode_row(row))
    assert plain(again) == plain(row)
    assert encode_row(again) == encode_row(row)


def test_a_key_is_split() -> None:
    row = EventMemory("acme", "execlet.progress", "e-1", T0)
    assert RowReader.split(row_key(row)) == ("acme", "execlet.progress/e-1")


def test_an_event_memory_is_decoded_without_its_row() -> None:
    row = EventMemory("acme", "execlet.progress", "e-1", T0)
    key, value = row_key(row), encode_row(row)
    assert RowReader().read_event(key, value) == ("acme", "execlet.progress/e-1", T0)
    with pytest.raises(msgspec.ValidationError, match="is not the key of a row of events"):
        RowReader().read_event(b"acme/e-1", value)
    with pytest.raises(msgspec.ValidationError):
        RowReader().read_event(key, b'["noon"]')
    with pytest.raises(AccidentError, match="has 2 fields, and this version of Obol knows 1"):
        RowReader().read_event(key, b"[1,2]")


def test_strings_are_shared() -> None:
    reader = RowReader()

    def read(row: Row) -> Any:
        return reader.read(row.TABLE, row_key(row), encode_row(row))

    replica = Replica("o", "d-r1", "d", ReplicaStatus.RUNNING, T0, window_counts=COUNTS)
    first, second = read(replica), read(replica)
    opened, again = read(window("dedicated", "d-r1", "d-r1.w1")), read(window("dedicated", "d-r1", "d-r1.w2"))
    assert opened.org_id is first.org_id is second.org_id
    assert opened.owner_id is again.owner_id
    assert opened.deployment_id is first.deployment_id is second.deployment_id
    assert first.window_counts is second.window_counts
    assert opened.profile is again.profile
    assert opened.opened_by.topic is again.opened_by.topic


def test_a_window_is_encoded_without_fields_that_follow_from_its_id() -> None:
    opened = window("dedicated", "d-r1", "d-r1.w1")
    assert row_key(opened) == b"o/d-r1.w1"
    assert encode_row(opened) == (
        b'["dedicated","dedicated.h100.1x",1,%d,%d,%d,["t",7,%d],null,null,0]' % (T0, T0, T0, T0)
    )


def test_an_older_row_gets_the_defaults_of_new_fields() -> None:
    got: Any = RowReader().read("replicas", b"o/d-r1", b'["d","pending",5]')
    assert plain(got) == plain(Replica("o", "d-r1", "d", ReplicaStatus.PENDING, 5))


def test_an_order_count_of_a_later_version_is_refused() -> None:
    orders = {Order.CREATE: OrderCount(1, 1, T0)}
    instance = Instance("o", "i", InstanceStage.CREATING, "f", "a100", 1, 50, "ssh", "img", True, T0, T0, orders=orders)
    written = encode_row(instance)
    assert b'{"create":[1,1,%d]}' % T0 in written
    later = written.replace(b'{"create":[1,1,', b'{"create":[1,1,9,')
    with pytest.raises(msgspec.MsgspecError):
        RowReader().read("instances", b"o/i", later)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"o/d-r1", b'{"status":"pending"}'),
        (b"o/d-r1", b'["d","pending"]'),
        (b"o/d-r1", b'["d","asleep",5]'),
        (b"o/d-r1", b'[["d","pending",5],null]'),
        (b"o", b'["d","pending",5]'),
        (b"o/d-r1/w1", b'["d","pending",5]'),
    ],
)
def test_an_invalid_row_is_refused(key: bytes, value: bytes) -> None:
    with pytest.raises(msgspec.MsgspecError):
        RowReader().read("replicas", key, value)


def test_a_row_of_a_newer_format_is_refused() -> None:
    """To go on without its last field would lose it."""
    with pytest.raises(
        AccidentError, match=r"'o/d-r1' of replicas has 30 fields, and this version of Obol knows"
    ) as end:
        RowReader().read("replicas", b"o/d-r1", b'["d","pending",5,' + b",".join([b"null"] * 27) + b"]")
    assert end.value.accident is Accident.NEWER_FORMAT
