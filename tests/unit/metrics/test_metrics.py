"""The metrics of rows that the rules created."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from streams.metrics import Metrics, families
from streams.metrics.census import CONDITIONS, Censuses
from streams.rules.context import Switches
from tests.support.rows import damage
from tests.unit.web.support import FakeCluster, FakeShard

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streams.billing.prices import Prices

ROOT = Path(__file__).resolve().parents[3]


class Source:
    """A worker that owns all partitions of a world."""

    prices_refused = 0
    disagreements: Sequence[str] = ()
    open_transactions: Sequence[str] = ()

    def __init__(self, world: FakeCluster) -> None:
        self.world = world

    @property
    def switches(self) -> Switches:
        return self.world.switches

    @property
    def prices(self) -> Prices:
        return self.world.prices

    def shards(self) -> Sequence[FakeShard]:
        return self.world.all


def _partition_first(label: tuple[str, str]) -> bool:
    return label[0] != "partition"


def samples(text: str) -> dict[tuple[str, ...], float]:
    """Return all samples: (name, partition if it has one, other label values …) → value."""
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items(), key=_partition_first))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def metrics_of(world: FakeCluster, **options: Any) -> Metrics:
    source = Source(world)
    return Metrics(source, Censuses(source), **options)


async def scraped(world: FakeCluster, metrics: Metrics | None = None) -> dict[tuple[str, ...], float]:
    """Return the samples of a worker that owns all partitions of `world`."""
    body, content_type = await (metrics or metrics_of(world)).scrape()
    assert content_type.startswith("text/plain")
    return samples(body.decode())


def summed(found: dict[tuple[str, ...], float], name: str, *labels: str) -> float:
    """Return the sum over partitions of the samples of `name` with these other labels."""
    return sum(value for key, value in found.items() if key[0] == name and key[2:] == labels)


async def test_totals_are_the_shards_counters_by_partition() -> None:
    world = FakeCluster(partitions=2)
    world.all[1].counters.update(
        {
            ("read", "execlet.heartbeats"): 12,
            ("applied", "execlet.heartbeats"): 7,
            ("ignored", "backwards"): 2,
            ("dead", "invalid"): 1,
            ("duplicate", "user.commands"): 3,
            ("rerouted", "host.reports"): 4,
            ("out_of_order", "host.reports"): 5,
            ("usage", "gpu"): 6,
            ("overbilled_ms", "dedicated"): 1_500,
            ("inference_requests", "count"): 9,
        }
    )
    found = await scraped(world)
    assert found["obol_records_read_total", "1", "execlet.heartbeats"] == 12
    assert found["obol_records_applied_total", "1", "execlet.heartbeats"] == 7
    assert found["obol_records_ignored_total", "1", "backwards"] == 2
    assert found["obol_records_dead_total", "1", "invalid"] == 1
    assert found["obol_records_duplicate_total", "1", "user.commands"] == 3
    assert found["obol_records_rerouted_total", "1", "host.reports"] == 4
    assert found["obol_records_out_of_order_total", "1", "host.reports"] == 5
    assert found["obol_usage_events_total", "1", "gpu"] == 6
    assert found["obol_overbilled_seconds_total", "1", "dedicated"] == 1.5
    assert found["obol_inference_requests_total", "1"] == 9
    assert not [key for key in found if key[0].startswith("obol_records") and key[1] == "0"]


def test_every_counter_has_a_metric() -> None:
    counted = set()
    for path in (ROOT / "streams").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.Subscript(ast.Attribute(attr="counts"), ast.Tuple([ast.Constant(str(kind)), *_])):
                    counted.add(kind)
                case ast.Call(ast.Attribute(ast.Attribute(attr="position") | ast.Name("position"), "add"), args):
                    counted |= {str(arg.value) for arg in args[:1] if isinstance(arg, ast.Constant)}
    assert {"ignored", "duplicate", "overbilled_ms", "inference_requests", "dead", "rerouted", "read"} <= counted
    assert counted <= families.COUNTERS.keys()


async def test_lag_and_restoring() -> None:
    world = FakeCluster(partitions=3)
    world.all[0].lag_records, world.all[0].lag_ms = 40, 2_500
    world.all[1].lag_records = world.all[1].lag_ms = None
    world.all[2].ready = False
    world.all[2].restored_rows, world.all[2].restore_total = 30, 120
    found = await scraped(world)
    assert found["obol_lag_records", "0"] == 40
    assert found["obol_lag_seconds", "0"] == 2.5
    assert ("obol_lag_records", "1") not in found
    assert ("obol_lag_seconds", "1") not in found
    assert [found["obol_partition_ready", str(partition)] for partition in range(3)] == [1, 1, 0]
    assert found["obol_restored_records", "2"] == 30
    assert found["obol_restore_records", "2"] == 120
    assert ("obol_orgs", "2") not in found


async def test_a_partition_that_can_t_read_its_inputs() -> None:
    world = FakeCluster(partitions=2)
    world.all[1].blocked = "execlet.heartbeats partition 1 can't be read at offset 7: the checksum is wrong"
    found = await scraped(world)
    assert [found["obol_partition_blocked", str(partition)] for partition in range(2)] == [0, 1]


async def test_each_unfinished_window_has_one_condition() -> None:
    world = FakeCluster(partitions=2)
    world.price("11:00", "dedicated.h100.1x", "360")
    world.deploy("12:00", "acme", "chat", min_replicas=3)
    for number in (1, 2, 3):
        world.healthy("12:00", "acme", f"chat-r{number}")
    world.heartbeat("12:04", "acme", "chat-r1")
    world.tick("12:05")
    # One has a heartbeat within 90 s, two have none since 12:00, so their horizon is 12:01 (B3).
    found = await scraped(world)
    assert summed(found, "obol_windows", "open") == 1
    assert summed(found, "obol_windows", "paused") == 2
    assert sum(summed(found, "obol_windows", condition) for condition in CONDITIONS) == 3
    assert summed(found, "obol_replicas", "running") == 3
    assert summed(found, "obol_replicas", "failed") == 0
    assert summed(found, "obol_deployments", "created") == 1
    assert summed(found, "obol_orgs") == 1
    # Running: 3 × 5 min. Billed: 5 min and 2 × 1 min. The rest is pending.
    assert summed(found, "obol_window_seconds", "running") == 900
    assert summed(found, "obol_window_seconds", "billed") == 300 + 60 + 60
    assert summed(found, "obol_window_seconds", "pending") == 480
    assert summed(found, "obol_window_seconds", "forgiven") == 0
    assert summed(found, "obol_unexplained_seconds") == 0


@pytest.mark.parametrize(
    ("switches", "priced", "condition"),
    [
        (Switches(billing_enabled=True), False, "unpriced"),
        (Switches(), True, "billing_off"),
        (Switches(billing_enabled=True, dry_run=True), True, "dry_run"),
    ],
)
async def test_the_conditions_of_held_windows(switches: Switches, priced: bool, condition: str) -> None:  # noqa: FBT001
    world = FakeCluster(partitions=1, switches=switches)
    world.price("11:00", "dedicated.h100.1x", "360")
    world.deploy("12:00", "acme", "chat")
    world.healthy("12:00", "acme", "chat-r1")
    if not priced:
        world.price("12:00:30", "dedicated.h100.1x", None)
    world.tick("12:01")
    found = await scraped(world)
    assert summed(found, "obol_windows", condition) == 1
    assert sum(summed(found, "obol_windows", other) for other in CONDITIONS) == 1


async def test_a_closed_window_with_time_left_to_bill() -> None:
    world = FakeCluster(partitions=1)
    world.price("11:00", "dedicated.h100.1x", "360")
    world.deploy("12:00", "acme", "chat")
    world.healthy("12:00", "acme", "chat-r1")
    for minute in range(1, 75):
        world.heartbeat(f"{12 + minute // 60}:{minute % 60:02}", "acme", "chat-r1")
    world.progress("13:15", "acme", "chat-r1", "SYSTEM_FAILURE")
    # 75 minutes are to be billed, at most 60 events per record (B5). The last heartbeat, at 13:14, covers all of them.
    world.tick("13:16")
    found = await scraped(world)
    assert summed(found, "obol_windows", "closed_unfinished") == 1
    assert summed(found, "obol_window_seconds", "pending") == 15 * 60
    world.tick("13:17")
    found = await scraped(world)
    assert summed(found, "obol_windows", "closed_unfinished") == 0
    assert summed(found, "obol_window_seconds", "billed") == 75 * 60


async def test_unexplained_time_of_two_windows_does_not_cancel_out() -> None:
    world = FakeCluster(partitions=1)
    world.price("11:00", "dedicated.h100.1x", "360")
    world.deploy("12:00", "acme", "chat", min_replicas=2)
    for number in (1, 2):
        world.healthy("12:00", "acme", f"chat-r{number}")
    world.tick("12:01")
    rows = world.all[0].store.orgs["acme"].replicas
    damage(rows["chat-r1"].open_windows[0], billed_ms=1_000)
    damage(rows["chat-r2"].open_windows[0], billed_ms=-1_000)
    found = await scraped(world)
    assert found["obol_unexplained_seconds", "0"] == 2
    assert found["obol_unexplained_windows", "0"] == 2


async def test_a_revoked_partition_has_no_metrics() -> None:
    world = FakeCluster(partitions=2)
    world.deploy("12:00", "acme", "chat")
    metrics = metrics_of(world)
    assert ("obol_orgs", "0") in await scraped(world, metrics)
    world.all = world.all[1:]
    found = await scraped(world, metrics)
    assert not [key for key in found if key[1:2] == ("0",) and key[0] != "obol_commit_records_bucket"]


async def test_commits_and_ticks() -> None:
    world = FakeCluster(partitions=1)
    shard = world.all[0]
    metrics = metrics_of(world, now_s=lambda: 1_002.5)
    shard.counters["read", "execlet.heartbeats"] = 100
    metrics.committed(shard, seconds=0.03, rows=5, messages=2)
    shard.counters["read", "execlet.heartbeats"] = 160
    shard.counters["read", "obol.clock"] = 1
    metrics.committed(shard, seconds=0.25, rows=7, messages=0, tick_ms=1_000_000)
    shard.counters["read", "obol.clock"] = 2
    # The clock of this tick is ahead of the worker's.
    metrics.committed(shard, seconds=0.02, rows=1, messages=0, tick_ms=1_006_500)
    found = await scraped(world, metrics)
    assert found["obol_commit_duration_seconds_count",] == 3
    assert found["obol_commit_duration_seconds_sum",] == pytest.approx(0.3)
    assert found["obol_commit_duration_seconds_bucket", "0.05"] == 2
    assert found["obol_commit_records_count",] == 2
    assert found["obol_commit_records_sum",] == 62
    assert found["obol_commit_rows_sum",] == 13
    assert found["obol_commit_messages_sum",] == 2
    assert found["obol_tick_delay_seconds_sum",] == 2.5
    assert found["obol_tick_delay_seconds_bucket", "3.0"] == 2
    assert found["obol_commit_last_success_timestamp_seconds",] > 1_700_000_000


async def test_redis_age() -> None:
    world = FakeCluster(partitions=1)
    assert ("obol_redis_age_seconds",) not in await scraped(world)
    ages: list[float | None] = [1.5, None]
    metrics = metrics_of(world, redis_age_s=lambda: ages.pop(0))
    assert (await scraped(world, metrics))["obol_redis_age_seconds",] == 1.5
    unknown = (await scraped(world, metrics))["obol_redis_age_seconds",]
    assert unknown != unknown  # noqa: PLR0124 - NaN


async def test_openmetrics_if_accept_prefers_it() -> None:
    body, content_type = await metrics_of(FakeCluster(partitions=1)).scrape("application/openmetrics-text")
    assert content_type.startswith("application/openmetrics-text")
    assert body.endswith(b"# EOF\n")


async def test_names_follow_prometheus_conventions() -> None:
    metrics = metrics_of(FakeCluster(partitions=1), redis_age_s=lambda: None)
    found = [family for family in metrics.registry.collect() if family.name.startswith("obol")]
    assert len(found) > 25
    for family in found:
        assert re.fullmatch(r"obol(_[a-z]+)*", family.name), family.name
        assert not re.search(r"_(ms|milliseconds|minutes|hours|count|sum|bucket|total)(_|$)", family.name), family.name
        assert family.documentation.endswith("."), family.name
