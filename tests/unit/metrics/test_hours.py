"""The last 24 hours of the fleet: by hand, and against a count of each minute."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from streams.billing.minutes import cut
from streams.billing.windows import Origin, Window
from streams.limits import HOUR_MS, MINUTE_MS
from streams.metrics.hours import HOURS, Hour, Hours
from tests.unit.web.support import FakeCluster, at, serving, utc
from tests.world.world import World

NOON = at("12:00")
WEEK_MS = 168 * HOUR_MS
ORIGIN = Origin("execlet.progress", 0, 0)


def window(opened_at: int, billed_ms: int = 0, ended_at: int | None = None, meter: str = "dedicated") -> Window:
    return Window(
        org_id="acme",
        window_id="chat-r1.w1",
        meter=meter,
        owner_id="chat-r1",
        deployment_id="chat",
        profile="dedicated.h100.1x",
        quantity=1,
        opened_at=opened_at,
        billed_until=opened_at + billed_ms,
        last_health_check=None,
        opened_by=ORIGIN,
        ended_at=ended_at,
        billed_ms=billed_ms,
    )


def hours(*windows: Window, as_of: int = at("12:20"), kept_ms: int = WEEK_MS) -> list[Hour]:
    counted = Hours(as_of, kept_ms)
    for one in windows:
        counted.add(one)
    return counted.items()


def test_a_day_ends_with_the_current_hour() -> None:
    found = hours()
    assert [hour.start_ms for hour in found] == list(range(NOON - 23 * HOUR_MS, NOON + 1, HOUR_MS))
    assert {(hour.events, hour.running) for hour in found} == {(0, 0)}


def test_a_window_over_three_hours() -> None:
    # Opened 10:50:30: its first event is that of 10:50, so ten until 11:00; then sixty; then 12:00 to 12:19.
    opened = at("10:50:30")
    found = hours(window(opened, at("12:19") - opened))
    assert [(hour.events, hour.running) for hour in found[-4:]] == [(0, 0), (10, 1), (60, 1), (19, 1)]


def test_an_ended_window_and_one_of_an_instance() -> None:
    # 11:00:00 to 11:30:10: thirty minutes and a part of the next one.
    opened = at("11:00")
    ended = window(opened, 30 * MINUTE_MS + 10_000, opened + 30 * MINUTE_MS + 10_000)
    # An instance's meter sends events, but no replica runs.
    disk = window(opened, 5 * MINUTE_MS, meter="disk")
    assert [(hour.events, hour.running) for hour in hours(ended, disk)[-2:]] == [(36, 0), (0, 0)]


def test_what_opened_days_ago_counts_in_every_hour() -> None:
    opened = NOON - 100 * HOUR_MS
    found = hours(window(opened, NOON + 20 * MINUTE_MS - opened))
    assert [(hour.events, hour.running) for hour in found] == [(60, 1)] * 23 + [(20, 1)]


def test_the_edges_of_the_day() -> None:
    start = NOON - 23 * HOUR_MS
    before = window(start - HOUR_MS, HOUR_MS, start)
    assert set(hours(before)) == set(hours())
    # Up to a millisecond into the first hour: an event of its first minute; ended before the hour's end.
    one_more = window(start - HOUR_MS, HOUR_MS + 1, start + 1)
    assert hours(one_more)[0] == Hour(start, 1, 0)


def test_a_window_that_ends_with_the_hour_is_not_running_then_and_one_that_opens_is() -> None:
    assert hours(window(at("10:10"), 0, at("11:00")))[-2:] == [Hour(at("11:00"), 0, 0), Hour(NOON, 0, 0)]
    assert [hour.running for hour in hours(window(at("10:10"), 0, at("11:00")))[-3:]] == [0, 0, 0]
    assert [hour.running for hour in hours(window(at("11:00")))[-3:]] == [1, 1, 1]
    assert [hour.running for hour in hours(window(at("11:00") + 1))[-3:]] == [0, 1, 1]
    # The current hour is as of now: 12:20.
    assert [hour.running for hour in hours(window(at("12:20")))[-2:]] == [0, 1]
    assert [hour.running for hour in hours(window(at("11:30"), 0, at("12:20")))[-2:]] == [1, 0]
    assert [hour.running for hour in hours(window(at("12:20") + 1))[-2:]] == [0, 0]


def test_an_hour_from_which_windows_have_left_is_not_shown() -> None:
    # Kept for two hours: what ended after 10:20 is there, so 11:00 is the first whole hour.
    assert [hour.start_ms for hour in hours(kept_ms=2 * HOUR_MS)] == [at("11:00"), NOON]


def test_there_is_no_hour_before_1970() -> None:
    assert [hour.start_ms for hour in hours(as_of=HOUR_MS + 5)] == [0, HOUR_MS]


_MS = st.integers(0, 30 * HOUR_MS)


@given(st.lists(st.tuples(_MS, _MS, st.none() | _MS), max_size=5), st.integers(0, HOUR_MS - 1))
def test_it_is_a_count_of_each_minute(given_: list[tuple[int, int, int | None]], into_hour: int) -> None:
    as_of = NOON + into_hour
    first = NOON - 26 * HOUR_MS
    windows = [
        window(
            first + opened,
            min(billed, max(0, as_of - first - opened)),
            None if lasts is None else first + opened + lasts,
        )
        for opened, billed, lasts in given_
    ]
    found = hours(*windows, as_of=as_of)
    assert len(found) == HOURS
    for hour in found:
        end = min(as_of, hour.start_ms + HOUR_MS)
        pieces = [piece for one in windows for piece in cut(one.opened_at, one.billed_to, 10_000)]
        assert hour.events == sum(hour.start_ms <= start < hour.start_ms + HOUR_MS for start, _ in pieces)
        assert hour.running == sum(
            one.opened_at <= end and (one.ended_at is None or end < one.ended_at) for one in windows
        )


def two_partitions() -> FakeCluster:
    world = FakeCluster(partitions=2)
    world.price("09:00", "dedicated.h100.1x", "360")
    # acme and calm are in different partitions.
    assert world.shard_of("acme") is not world.shard_of("calm")
    for org in ("acme", "calm"):
        world.deploy("10:57", org, "chat")
        world.healthy("10:58", org, "chat-r1")
    for minute in ("10:59", "11:00", "11:01", "11:02"):
        world.heartbeat(minute, "acme", "chat-r1")
        world.tick(minute)
    return world


async def fleet(world: FakeCluster, path: str = "/") -> dict[str, Any]:
    async with serving(world, 2) as workers:
        got: dict[str, Any] = (await workers[0].get(path)).json
        return got


async def test_the_fleet_adds_up_its_partitions() -> None:
    # acme: 10:58 to 11:02; calm, without heartbeats since 10:58: 90 s later is 10:59:30, so one whole minute.
    got = (await fleet(two_partitions()))["hours"]
    assert got[-2:] == [
        {"hour": utc("10:00"), "events": 3, "dedicated_replicas": 2},
        {"hour": utc("11:00"), "events": 2, "dedicated_replicas": 2},
    ]
    assert len(got) == HOURS


async def test_partitions_at_different_hours_show_the_hours_that_both_have() -> None:
    world = two_partitions()
    world.shard_of("calm").as_of = at("12:01")
    got = (await fleet(world))["hours"]
    assert (len(got), got[-1]["hour"]) == (HOURS - 1, utc("11:00"))


async def test_a_partition_without_records_counts_as_zero() -> None:
    world = FakeCluster(partitions=2)
    world.price("09:00", "dedicated.h100.1x", "360")
    world.deploy("10:57", "acme", "chat")
    world.healthy("10:58", "acme", "chat-r1")
    assert world.shard_of("calm").as_of is None
    got = (await fleet(world))["hours"]
    assert (len(got), got[-1]) == (HOURS, {"hour": utc("10:00"), "events": 0, "dedicated_replicas": 1})


async def test_a_fleet_without_records_has_no_hours() -> None:
    assert (await fleet(FakeCluster(partitions=2)))["hours"] == []


def test_the_hours_survive_a_restart_since_they_are_counted_from_rows() -> None:
    world = World()
    world.do("09:00 price dedicated.h100.1x 1", "10:57 create d1", "10:58 healthy d1-r1", "10:58:30 heartbeat d1-r1")
    world.do("10:59 tick", "10:59:30 restarting d1-r1", "11:00 tick", "11:01:10 healthy d1-r1", "11:02 tick")

    def counted() -> list[Hour]:
        found = Hours(world.as_of, WEEK_MS)
        for org in world.driver.store(0).orgs.values():
            for one in org.windows.values():
                found.add(one)
        return found.items()

    before = counted()
    # 10:58 and half of 10:59; 11:01:10 to 11:02.
    assert [(hour.events, hour.running) for hour in before[-2:]] == [(2, 0), (1, 1)]
    world.restart()
    assert counted() == before
