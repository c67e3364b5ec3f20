"""The store: indexes and expiry of a small fleet, worked out by hand, and rows that are restored more than once."""

from dataclasses import replace
from typing import Any

from schemas.times import parse_rfc3339
from streams.rules.rows import EventMemory, Replica
from streams.rules.store import NEVER, RowStore
from tests.world.timeline import to_ms
from tests.world.world import World

DAY = 86_400_000


def fleet() -> World:
    """A running replica, one that ended and still sends heartbeats, and an instance that was stopped."""
    world = World()
    world.set(retention_h=1)
    world.do(
        "11:00 price dedicated.h100.1x 1",
        "11:00 price instance.h100.1x 1",
        "11:00 price disk 1",
        "11:00 balance 1000000",
        "12:00 create d labels=team:a",
        "12:00 create e min=0",
        "12:00 deploy i disk=7",
        "12:01 healthy d-r1 as up",
        "12:01 healthy e-r1 as other",
        "12:02 report i workload_up as started",
        "12:03 stop e",
        "12:04 tick",
        "12:04:30 heartbeat e-r1",
        "12:05 stop_instance i",
        "12:06 report i stop_confirmed as halted",
    )
    return world


def test_indexes_are_what_the_rows_say() -> None:
    world = fleet()
    rows = world.driver.store().orgs["acme"]
    # The window of e-r1 is billed up to 90 s after its last heartbeat, and so is done.
    assert rows.derived() == {
        "created": {"d"},
        "live_instances": {"i"},
        "live_replicas": {"d": ["d-r1"]},
        "units": {"dedicated.h100.1x": 1, "disk": 7},
        "late_signs": {("replicas", "e-r1")},
        "due": {"replica": ["d-r1.w1"], "instance": ["i.disk.w1"]},
        "crediting": {"replica": [], "instance": []},
        "labels": {"d-r1.w1": ',"labels":{"team":"a"}'},
        "closed_of": {"e-r1": {"e-r1.w1"}, "i": {"i.gpu.w1"}},
        "open_windows": {"d-r1": {"d-r1.w1"}, "i": {"i.disk.w1"}},
    }


def test_credits_that_wait_are_indexed() -> None:
    world = fleet()
    world.do("12:07 price dedicated.h100.1x none")
    world.do("12:08 credit e-r1.w1 from=12:01 until=12:02", "12:09 credit d-r1.w1 from=12:01 until=12:02")
    derived = world.driver.store().orgs["acme"].derived()
    assert derived["crediting"] == {"replica": ["d-r1.w1", "e-r1.w1"], "instance": []}
    # In order of window ids, too, where they are restored in another.
    store, _ = restored(world)
    assert store.orgs["acme"].derived() == derived


def test_when_rows_may_leave() -> None:
    """C1, C4, C5: an hour after the end, here, or after the last sign of life; what is remembered, after 24 h."""
    world = fleet()
    store = world.driver.store()
    hour, minute = 3_600_000, 60_000
    expected = {
        (to_ms("12:03") + hour, "deployments", "e"),
        (to_ms("12:04:30") + hour, "replicas", "e-r1"),
        (to_ms("12:03") + hour, "windows", "e-r1.w1"),
        (to_ms("12:05") + hour, "windows", "i.gpu.w1"),
        *((to_ms(at) + DAY, "answers", name) for at, name in (("12:00", "c1"), ("12:00", "c2"), ("12:00", "c3"))),
        *((to_ms(at) + DAY, "answers", name) for at, name in (("12:03", "c4"), ("12:05", "c5"))),
        *((to_ms("12:01"), "events", f"execlet.progress/{name}") for name in ("up", "other")),
        (to_ms("12:02"), "events", "host.reports/started"),
        (to_ms("12:06"), "events", "host.reports/halted"),
    }
    found = {row for row in store.expiring("acme") if row[1] != "day_usage"}
    assert {(at - at % minute if table == "events" else at, table, row_id) for at, table, row_id in found} == expected
    # An event that is applied again after its 24 h is listed by its new time only.
    world.do("1d 12:30 healthy d-r1 as up")
    assert {at for at, table, row_id in store.expiring("acme") if row_id.endswith("/up")} == {to_ms("1d 12:30")}


def test_a_row_that_has_left_is_in_no_index() -> None:
    world = fleet()
    world.do("12:07 destroy_instance i", "12:08 report i teardown_finished", "13:30 tick")
    rows = world.driver.store().orgs["acme"]
    assert (set(rows.replicas), set(rows.instances), rows.zombies) == ({"d-r1"}, set(), {})
    assert rows.derived()["closed_of"] == {}


def test_a_tick_bills_in_order_of_window_ids_not_of_opening() -> None:
    world = World()
    world.do("11:00 price dedicated.h100.1x 1", "11:59 create d min=3")
    world.do("12:00 healthy d-r3", "12:00 healthy d-r1", "12:00 healthy d-r2")
    sent = world.do("12:01 tick")
    assert [one.value["window_id"] for one in sent] == ["d-r1.w1", "d-r2.w1", "d-r3.w1"]


def test_a_heartbeat_that_is_no_later_writes_no_row() -> None:
    """A serverless replica has no window, so that its heartbeats are in its own row."""
    world = World()
    world.do("11:59 create d serving=serverless", "12:00 healthy d-r1", "12:01 heartbeat d-r1")
    written = world.rows_written("replicas")
    world.do("12:01 heartbeat d-r1", "12:00:59.999 heartbeat d-r1")
    assert world.rows_written("replicas") == written
    assert parse_rfc3339(world.view("replica", "d-r1")["last_health_check"]) == to_ms("12:01")


def restored(world: World) -> tuple[RowStore, dict[str, Any]]:
    """A store with all rows of the org, owners before their windows, and the rows by table and id."""
    store = RowStore(3_600_000)
    kept = world.driver.store().orgs["acme"]
    for table in ("orgs", "deployments", "replicas", "instances", "windows"):
        for row in reversed(list(kept.table(table).values())):
            store.restore(replace(row))
    return store, kept.derived()


def test_a_row_that_is_restored_again_takes_the_place_of_the_first() -> None:
    """A changelog has every version of a row until it is compacted."""
    world = fleet()
    store, derived = restored(world)
    rows = store.orgs["acme"]
    assert rows.derived() == derived
    replica = rows.replicas["d-r1"]
    window = replica.open_windows[0]
    later = Replica("acme", "d-r1", "d", replica.status, replica.created_at, last_health_check=7)
    store.restore(later)
    assert rows.replicas["d-r1"].last_health_check == 7
    assert rows.replicas["d-r1"].open_windows == (window,)
    store.restore(replace(window))
    store.restore(replace(rows.instances["i"]))
    store.restore(replace(rows.deployments["d"]))
    assert rows.derived() == derived


def test_an_event_that_is_restored_again_has_its_last_time() -> None:
    store = RowStore(3_600_000)
    store.restore(EventMemory("acme", "host.reports", "e", to_ms("12:00")))
    store.restore(EventMemory("acme", "host.reports", "e", to_ms("12:30")))
    assert store.orgs["acme"].events == {"host.reports/e": to_ms("12:30")}
    assert [event.row_id for event in store.expired_events(to_ms("12:00") + DAY)] == []
    assert [event.row_id for event in store.expired_events(to_ms("12:30") + DAY)] == ["host.reports/e"]
    store.restore_removed("events", "acme", "host.reports/e")
    assert store.orgs == {}


def test_a_row_that_is_restored_as_removed_is_gone_and_a_blank_org_with_it() -> None:
    world = fleet()
    store, _ = restored(world)
    rows = store.orgs["acme"]
    store.restore_removed("windows", "acme", "unknown")
    store.restore_removed("windows", "unknown", "x")
    for table, row_ids in (("windows", list(rows.windows)), ("replicas", ["d-r1", "e-r1"]), ("instances", ["i"])):
        for row_id in row_ids:
            store.restore_removed(table, "acme", row_id)
    store.restore_removed("deployments", "acme", "d")
    assert rows.derived()["open_windows"] == {}
    assert (dict(rows.windows), dict(rows.replicas), set(rows.deployments)) == ({}, {}, {"e"})
    store.restore_removed("deployments", "acme", "e")
    assert set(store.orgs) == {"acme"}
    store.restore_removed("orgs", "acme", "acme")
    assert store.orgs == {}


def test_a_new_store_has_applied_no_tick() -> None:
    assert RowStore(1).latest_tick == NEVER
