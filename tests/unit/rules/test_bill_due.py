"""One tick over one window: the pieces by hand, at the bounds of a minute, of the 90 s and of the last piece."""

from collections import defaultdict

import pytest

from schemas.times import parse_rfc3339
from tests.world.timeline import to_clock, to_ms
from tests.world.world import Sent, World

NOON = to_ms("12:00")
PRICES = ["11:00 price dedicated.h100.1x 1", "11:00 price instance.h100.1x 1", "11:00 price disk 1"]


def clock(after_ms: int) -> str:
    return to_clock(NOON + after_ms)


def pieces_of(sent: list[Sent]) -> list[tuple[int, int]]:
    events = [each.value for each in sent if each.topic == "croesus.usage"]
    times = [(parse_rfc3339(event["interval_start"]), parse_rfc3339(event["interval_end"])) for event in events]
    return [(start - NOON, end - NOON) for start, end in times]


@pytest.mark.parametrize(
    ("opened_at", "heartbeats", "ticks", "now", "pieces"),
    [
        # With heartbeats: the minute that has passed, whole or from where the window opened.
        (0, [50_000], [], 60_000, [(0, 60_000)]),
        (0, [50_000], [], 62_000, [(0, 60_000)]),
        (59_999, [60_000], [], 60_000, [(59_999, 60_000)]),
        # The minute is not over, or nothing of it is new.
        (0, [50_000], [], 59_999, []),
        (0, [50_000, 70_000], [60_000], 119_999, []),
        # The last heartbeat 90 s before the minute still covers it; a millisecond earlier, only the minute before.
        (0, [30_000], [60_000], 120_000, [(60_000, 120_000)]),
        (0, [29_999], [60_000], 120_000, []),
        (0, [29_999], [], 120_000, [(0, 60_000)]),
        # A minute and a millisecond are two pieces; a tick that was missed is made up for.
        (59_999, [115_000], [], 120_000, [(59_999, 60_000), (60_000, 120_000)]),
        (0, [90_000, 175_000], [], 180_000, [(0, 60_000), (60_000, 120_000), (120_000, 180_000)]),
    ],
)
def test_an_open_dedicated_window(
    opened_at: int, heartbeats: list[int], ticks: list[int], now: int, pieces: list[tuple[int, int]]
) -> None:
    world = World()
    world.do(*PRICES, "11:30 create d")
    world.do(f"{clock(opened_at)} healthy d-r1", *(f"{clock(at)} heartbeat d-r1" for at in heartbeats))
    world.do(*(f"{clock(tick)} tick" for tick in ticks))
    before = world.rows_written("windows")
    assert pieces_of(world.do(f"{clock(now)} tick")) == pieces
    # The row is written where its watermark moved, and only there: a million idle rows a minute would cost too much.
    assert world.rows_written("windows") - before == bool(pieces)


@pytest.mark.parametrize(
    ("opened_at", "now", "pieces"),
    [
        (0, 60_000, [(0, 60_000)]),
        (30_000, 61_000, [(30_000, 60_000)]),
        (0, 59_999, []),
        (0, 120_000, [(0, 60_000), (60_000, 120_000)]),
    ],
)
def test_an_open_instance_window_needs_no_heartbeat(opened_at: int, now: int, pieces: list[tuple[int, int]]) -> None:
    world = World()
    world.do(*PRICES, "11:00 balance 1000", "11:30 deploy i", f"{clock(opened_at)} report i workload_up")
    before = world.rows_written("windows")
    assert pieces_of(world.do(f"{clock(now)} tick")) == pieces
    assert world.rows_written("windows") - before == bool(pieces)


def test_the_sums_of_a_day_are_those_of_its_events() -> None:
    """U1: windows of several profiles and quantities, whole, partial, caught up, held and settled, in one org."""
    world = World()
    world.do(*PRICES, "11:00 price instance.a100.1x 7", "11:00 balance 1000000000", "11:30 create a min=0")
    world.do("11:30 create b min=0", "11:30 create c min=0", "11:30 create z min=0 gpu=l40s count=2 serving=serverless")
    for number, disk in enumerate((100, 100, 50, 1, 100)):
        world.do(f"11:30 deploy i{number} disk={disk} gpu={'a100' if number % 2 else 'h100'}")
        world.do(f"11:3{number}:10.5 report i{number} workload_up".replace("10.5", "10.500"))
    world.do("11:50 stop_instance i0", "11:50 stop_instance i2", "11:50 stop_instance i3", "11:50 stop_instance i4")
    for number in (0, 2, 3, 4):
        world.do(f"11:51:0{number} report i{number} stop_confirmed")
    world.do("12:00 healthy a-r1", "12:00:20 healthy b-r1", "12:00:30 healthy c-r1")
    for minute in range(1, 6):
        # b is silent for a while; c fails, which leaves a part of a minute; i4 starts again.
        world.do(f"12:0{minute} heartbeat a-r1", f"12:0{minute} heartbeat c-r1", f"12:0{minute} tick")
    world.do("12:05:10 heartbeat b-r1", "12:05:30.001 system_failure c-r1", "12:05:40 start_instance i4", "12:06 tick")
    world.do("12:06:10 price instance.a100.1x none", "12:07 tick", "12:08 price instance.a100.1x 9", "12:08 tick")
    world.do("12:08:30 stop_instance i1", "12:10 tick")
    expected: dict[tuple[str, str], int] = defaultdict(int)
    for sent in world.all_sent:
        if sent.topic == "croesus.usage":
            expected[sent.value["type"], sent.value["profile"]] += sent.value["duration_ms"] * sent.value["quantity"]
    rows = world.driver.store(0).orgs["acme"].day_usage.values()
    assert {(row.type, row.profile): row.billed for row in rows} == expected
    assert len(expected) == 4
    assert world.view("window", "i1.gpu.w1")["pending_ms"] == 0
