"""Faust's tables over a worker's rows, and the configuration of their changelogs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from streams.app import make_app
from streams.billing.prices import Prices
from streams.billing.windows import Origin, Window
from streams.engine.rowcodec import encode_row
from streams.engine.shard import INPUTS, Shard
from streams.engine.table import TABLES, ReadOnlyTableError
from streams.lifecycle.deployment import DeploymentStatus
from streams.lifecycle.instance import InstanceStage, Order
from streams.lifecycle.replica import ReplicaStatus
from streams.limits import HOUR_MS
from streams.rules.context import Switches
from streams.rules.rows import (
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
from streams.settings import Settings
from topics.partitioner import partition_of

if TYPE_CHECKING:
    from collections.abc import Callable

PARTITIONS = 2
ACME = 0
"""The partition of acme; that of bolt and zeta is the other."""


def shard(number: int) -> Shard:
    return Shard(
        number, partitions=PARTITIONS, prices=Prices(), switches=Switches(), retention_ms=HOUR_MS, stall_timeout_s=2.0
    )


def window(org_id: str, replica_id: str) -> Window:
    return Window(
        org_id,
        f"{replica_id}.w1",
        "dedicated",
        replica_id,
        "chat",
        "dedicated.h100.1x",
        quantity=1,
        opened_at=1_000,
        billed_until=1_000,
        last_health_check=2_000,
        opened_by=Origin("execlet.progress", 7, 1_000),
    )


def replica(org_id: str, replica_id: str) -> Replica:
    counts = (WindowCount("dedicated", 1, 0),)
    return Replica(org_id, replica_id, "chat", ReplicaStatus.RUNNING, 500, window_counts=counts)


def deployment(org_id: str) -> Deployment:
    return Deployment(org_id, "chat", DeploymentStatus.CREATED, "m", "h100", 1, "dedicated", 1, None, 500, 500)


ROWS: tuple[Row, ...] = (
    Org("acme", balance="12.50"),
    Org("zeta"),
    deployment("acme"),
    deployment("bolt"),
    replica("acme", "chat-r1"),
    replica("bolt", "chat-r1"),
    window("acme", "chat-r1"),
    Instance(
        "acme",
        "box",
        InstanceStage.RUNNING,
        "o",
        "a100",
        2,
        100,
        "ssh",
        "ubuntu",
        True,
        1,
        2,
        orders={Order.CREATE: OrderCount(1, 1, 0)},
    ),
    CommandMemory("acme", "c1", 5, '{"outcome":"accepted"}'),
    EventMemory("acme", "execlet.progress", "e1", 9),
    OperatorCommandMemory("acme", "c1", 6, '{"outcome":"accepted"}'),
    UsedId("acme", "instance", "box", 7),
    DayUsage("acme", "2026-11-29", "dedicated_inference_running", "dedicated.h100.1x", billed=60_000),
)


@pytest.fixture
def tables() -> Any:
    """The tables of a worker that has both partitions, and their rows."""
    assert [partition_of(org, PARTITIONS) for org in ("acme", "bolt", "zeta")] == [ACME, 1, 1]
    app = make_app(Settings.from_env({"OBOL_PARTITIONS": str(PARTITIONS)}))
    for number in range(PARTITIONS):
        app.engine.by_partition[number] = restored = shard(number)
        for row in ROWS:
            if partition_of(row.org_id, PARTITIONS) == number:
                restored.restore(row.TABLE, [(row_key(row), encode_row(row))])
        restored.start(dict.fromkeys(INPUTS, 0))
    return app.tables


async def test_a_row_is_found_by_its_key_with_all_its_fields(tables: Any) -> None:
    assert tables["replicas"]["acme/chat-r1"] == {
        "org_id": "acme",
        "replica_id": "chat-r1",
        "deployment_id": "chat",
        "status": "running",
        "created_at": 500,
        "fail_reason": None,
        "last_health_check": None,
        "window_counts": [{"meter": "dedicated", "opened": 1, "free_at": 0}],
        "changes_made": 0,
        "ended_at": None,
        "late_signs": None,
        "aborts_sent": 0,
    }
    usage = tables["day_usage"]["acme/2026-11-29/dedicated_inference_running/dedicated.h100.1x"]
    assert (usage["day"], usage["billed"]) == ("2026-11-29", 60_000)
    assert tables["instances"]["acme/box"]["orders"] == {"create": {"sent": 1, "attempt": 1, "last_minute": 0}}
    assert tables["orgs"]["acme/acme"]["balance"] == "12.50"
    assert tables["answers"]["acme/c1"]["value"] == '{"outcome":"accepted"}'
    assert tables["events"]["acme/execlet.progress/e1"] == {
        "org_id": "acme",
        "topic": "execlet.progress",
        "event_id": "e1",
        "at": 9,
    }
    position = tables["positions"]["1"]
    assert {name: position[name] for name in ("as_of", "offsets", "times", "counts")} == {
        "as_of": -1,
        "offsets": {},
        "times": {},
        "counts": {},
    }


async def test_a_table_reads_as_a_mapping_over_all_partitions(tables: Any) -> None:
    replicas = tables["replicas"]
    assert sorted(replicas) == sorted(replicas.keys()) == ["acme/chat-r1", "bolt/chat-r1"]
    assert len(replicas) == 2
    assert {key: row["org_id"] for key, row in replicas.items()} == {"acme/chat-r1": "acme", "bolt/chat-r1": "bolt"}
    assert sorted(row["org_id"] for row in replicas.values()) == ["acme", "bolt"]
    assert replicas.get("acme/chat-r1") == replicas[b"acme/chat-r1"] == replicas.copy()["acme/chat-r1"]
    assert "acme/chat-r1" in replicas
    assert sorted(tables["orgs"]) == ["acme/acme", "bolt/bolt", "zeta/zeta"]
    assert sorted(tables["positions"]) == ["0", "1"]
    # Every table has a row here: each kind of row is read below, too.
    assert {name: len(tables[name]) for name in TABLES} == dict.fromkeys(TABLES, 1) | {
        "orgs": 3,
        "deployments": 2,
        "replicas": 2,
        "positions": 2,
    }


@pytest.mark.parametrize("key", ["acme/chat-r2", "acme", "unknown/x", "", "/", "acme/chat-r1/x", b"\xff/x", 7, None])
async def test_an_unknown_key_is_not_in_the_table(tables: Any, key: Any) -> None:
    for name in TABLES:
        assert key not in tables[name]


async def test_a_value_is_a_copy_of_plain_json_values(tables: Any) -> None:
    for name in TABLES:
        for key, row in tables[name].items():
            assert msgspec.json.decode(msgspec.json.encode(row)) == row
            row.clear()
            assert tables[name][key] != {}


async def test_the_error_for_a_missing_row_names_its_partition(tables: Any) -> None:
    engine = tables["replicas"].engine
    with pytest.raises(KeyError, match="acme/chat-r9: no such row"):
        tables["replicas"]["acme/chat-r9"]
    del engine.by_partition[ACME]
    with pytest.raises(KeyError, match="partition 0 is not assigned to this worker; /tables/replicas/ asks its owner"):
        tables["replicas"]["acme/chat-r1"]
    assert "acme/chat-r1" not in tables["replicas"]
    engine.by_partition[ACME] = shard(ACME)
    with pytest.raises(KeyError, match="acme/chat-r1: partition 0 is being restored"):
        tables["replicas"]["acme/chat-r1"]
    assert sorted(tables["orgs"]) == ["bolt/bolt", "zeta/zeta"]


WRITES: dict[str, Callable[[Any], Any]] = {
    "set": lambda table: table.__setitem__("acme/chat-r1", {}),
    "del": lambda table: table.__delitem__("acme/chat-r1"),
    "pop": lambda table: table.pop("acme/chat-r1"),
    "pop with a default": lambda table: table.pop("unknown/x", None),
    "popitem": lambda table: table.popitem(),
    "setdefault": lambda table: table.setdefault("acme/chat-r1", {}),
    "update": lambda table: table.update({"acme/chat-r1": {}}),
    "update with nothing": lambda table: table.update(),
    "raw_update": lambda table: table.raw_update({"acme/chat-r1": {}}),
    "clear": lambda table: table.clear(),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES.keys())
async def test_a_write_raises_and_names_the_writer(tables: Any, write: Callable[[Any], Any]) -> None:
    before = tables["replicas"].copy()
    with pytest.raises(ReadOnlyTableError) as refused:
        write(tables["replicas"])
    assert str(refused.value) == (
        "table replicas is read-only: the rules write its rows, in the transaction of each partition's commit; to "
        "change one, send a record to an inbound topic (faust -A streams.app send user.commands ...)"
    )
    assert tables["replicas"].copy() == before
