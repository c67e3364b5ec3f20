"""How long rows are kept."""

from schemas.times import rfc3339
from tests.world.timeline import to_ms
from tests.world.world import World

PRICE = "11:00 price dedicated.h100.1x 2.50"


def test_windows_are_listed_oldest_first_even_when_they_opened_at_one_time() -> None:
    world = World()
    world.do(PRICE, "12:00 create d1 min=0")
    for _ in range(11):
        world.do("12:01 healthy d1-r1", "12:01 restarting d1-r1")
    windows = world.view("replica", "d1-r1")["windows"]
    assert [window["window_id"] for window in windows] == [f"d1-r1.w{n}" for n in range(1, 12)]


def test_an_org_without_rows_is_removed() -> None:
    """A command for an unknown org gets a result, is remembered for 24 h (C1), and is removed with its org."""
    world = World()
    world.do(
        "12:00 stranger: stop d1", "12:00 stranger: create d1 min=-1", "12:00 known: balance 5", "12:00 gone: suspend"
    )
    world.do("12:30 gone: reinstate")
    world.do("1d 11:59:59.999 tick")
    assert world.orgs() == ["gone", "known", "stranger"]
    world.do("1d 12:00 tick")
    assert world.orgs() == ["gone", "known"]
    world.do("1d 12:30 tick")
    assert world.orgs() == ["known"]


def test_an_org_with_a_balance_or_a_suspension_stays() -> None:
    world = World()
    world.set(retention_h=1)
    world.do(
        PRICE,
        "12:00 create d1 min=0",
        "12:01 healthy d1-r1",
        "12:02 price dedicated.h100.1x none",
        "12:03 stop d1",
        "12:03 bolt: suspend",
    )
    world.do("9d 12:00 tick")
    assert world.orgs() == ["acme", "bolt"]
    world.do("9d 12:01 price dedicated.h100.1x 1", "9d 12:02 tick", "9d 12:03 bolt: reinstate", "10d 12:03 tick")
    # Its usage by day (U1) and its id stay for 400 days.
    assert world.orgs() == ["acme"]
    world.do("409d 12:01:59.999 tick")
    assert world.orgs() == ["acme"]
    world.do("409d 12:02 tick")
    assert world.orgs() == []


def test_an_id_is_another_entity_400_days_after_its_row_has_left() -> None:
    """To the millisecond, though no tick came since; it is numbered from 1."""
    world = World()
    world.set(retention_h=1)
    world.do(PRICE, "12:00 create d1 min=0", "12:01 stop d1", "13:01 tick")
    assert world.find("deployment", "d1") is None
    (refused,) = world.do("400d 13:00:59.999 create d1 min=0")
    assert refused.value["code"] == "ALREADY_EXISTS"
    created = world.do("400d 13:01 create d1 min=0")
    assert {sent.value["event_id"] for sent in created if sent.topic == "lifecycle.changes"} == {
        *("deployment:d1:1", "replica:d1-r1:1"),
    }
    world.do("400d 13:02 tick", "400d 13:03 healthy d1-r1")
    assert world.view("replica", "d1-r1")["status"] == "running"


def test_usage_by_day_is_summed_to_the_last_digit_and_kept() -> None:
    """U1: by the UTC day of the interval's start, at the price of the record that sends it; credits apart."""
    world = World()
    world.set(retention_h=1)
    world.do(
        "11:00 price instance.h100.1x 0.000000000000000007",
        "11:00 price disk 3",
        "11:00 balance 100000000",
        "23:00 deploy i disk=7",
        "23:58:30 report i workload_up",
        "23:59 price instance.h100.1x 2",
        "23:59 tick",  # 30 s at 2
        "23:59:30 price instance.h100.1x 5",
        "1d 00:01 tick",  # a minute of either day at 5
        "1d 00:01:00.001 stop_instance i",  # 1 ms at 5
        "1d 00:02 report i stop_confirmed",
        "1d 00:03 tick",  # a minute of 7 GB at 3
        "1d 00:04 price instance.h100.1x 11",
        '1d 00:04 credit i.gpu.w1 from=23:59:59.999 "until=1d 00:00:00.002"',  # 1 ms and 2 ms at 11
    )
    price = 10**18
    expected = {
        "2026-11-29/instance_gpu_running/instance.h100.1x": (90_000, 1, (30_000 * 2 + 60_000 * 5) * price, 11 * price),
        "2026-11-30/instance_gpu_running/instance.h100.1x": (60_001, 2, 60_001 * 5 * price, 22 * price),
        "2026-11-30/instance_disk_stopped/disk": (420_000, 0, 420_000 * 3 * price, 0),
    }

    def sums() -> dict[str, tuple[int, int, int, int]]:
        rows = world.driver.store(0).orgs["acme"].day_usage
        return {key: (row.billed, row.credited, int(row.cost), int(row.credited_cost)) for key, row in rows.items()}

    assert sums() == expected
    world.restart()
    assert sums() == expected
    world.do("1d 01:00 destroy_instance i", "1d 01:01 report i teardown_finished", "3d 00:00 tick")
    kept = sums()
    assert world.find("instance", "i") is None
    assert kept.keys() == expected.keys()
    # The day itself, and 400 more.
    world.do("400d 23:59 tick")
    assert sums() == kept
    world.do("401d 00:00 tick")
    assert {key[:10] for key in sums()} == {"2026-11-30"}


def test_an_org_keeps_its_last_20_notices_for_its_page() -> None:
    world = World()
    for minute in range(21):
        world.do(f"12:{2 * minute:02} balance 1", f"12:{2 * minute:02}:10 tick")
        world.do(f"12:{2 * minute + 1:02} balance 0", f"12:{2 * minute + 1:02}:10 tick")
    kept = world.view("org")["notices"]
    assert [notice["at"] for notice in kept] == [
        rfc3339(to_ms(f"12:{2 * minute + 1:02}:10")) for minute in range(1, 21)
    ]
    assert {notice["kind"] for notice in kept} == {"balance_empty"}
