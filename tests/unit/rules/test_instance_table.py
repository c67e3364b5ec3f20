"""Every state of an instance, by every command, report and timer: complete tables (I1 to I4, I9 to I11)."""

from pathlib import Path
from typing import Any

import pytest

from schemas.times import rfc3339
from tests.world.checks import check_outputs, check_rows
from tests.world.timeline import to_clock, to_ms
from tests.world.world import Sent, World

ENTERED = "12:18:45.500"  # when the instance entered the row's state
NOW = "12:20:30.125"  # the time of the event

# The usage events of a meter that ran from ENTERED to NOW, billed at a change (I2).
PIECES = [("12:18:45.500", 14_500), ("12:19", 60_000), ("12:20", 30_125)]

MONEY = ["00:00 price instance.h100.1x 100", "00:00 price disk 0.01", "00:00 balance 1000000"]
LAUNCHED = ["12:00 deploy i", "12:01 report i workload_up"]
HALTED = [*LAUNCHED, "12:02 stop_instance i", "12:03 report i stop_confirmed"]

ARRANGE = {
    "creating": [f"{ENTERED} deploy i"],
    "starting": [*HALTED, f"{ENTERED} start_instance i"],
    "running": ["12:00 deploy i", f"{ENTERED} report i workload_up"],
    # A stop asked for at 11:45, timed out at a tick, which has sent the order again.
    "pending": [
        "11:40 deploy i",
        "11:41 report i workload_up",
        "11:45 stop_instance i",
        "11:45 tick",
        f"{ENTERED} tick",
    ],
    "stopping": [*LAUNCHED, f"{ENTERED} stop_instance i"],
    "stopped": [*LAUNCHED, "12:02 stop_instance i", f"{ENTERED} report i stop_confirmed"],
    "destroying": [*LAUNCHED, f"{ENTERED} destroy_instance i"],
    "destroyed": [*LAUNCHED, "12:02 destroy_instance i", f"{ENTERED} report i teardown_finished"],
    # It has run, and its workload was lost: its GPUs are released.
    "error": [*LAUNCHED, f"{ENTERED} report i workload_lost"],
    # Its launch failed before it reached the host: it never ran, and its GPUs stay reserved.
    "error_held": ["12:00 deploy i", f"{ENTERED} report i launch_failed reached_host=false"],
}

COMMANDS = {"deploy": "deploy", "start": "start_instance", "stop": "stop_instance", "destroy": "destroy_instance"}
REASONS = {"deploy": "deployed", "start": "user", "stop": "user", "destroy": "user"}
ALLOWED = {
    "creating": "destroy",
    "starting": "destroy",
    "running": "stop, destroy",
    "pending": "stop, destroy",
    "stopping": "destroy",
    "stopped": "start, destroy",
    "destroying": "destroy",
    "destroyed": "",
    "error": "destroy",
    "error_held": "destroy",
}
STATUSES = {"accepted": 202, "ALREADY_EXISTS": 409, "ILLEGAL_TRANSITION": 409}


def cells(name: str) -> list[list[str]]:
    text = (Path(__file__).parent / name).read_text()
    _, *lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [[cell.strip() for cell in line.split("|")] for line in lines]


EVENTS = cells("instance_events.txt")
TIMERS = cells("instance_timers.txt")


def words(cell: str) -> list[str]:
    return [] if cell == "-" else [word.strip() for word in cell.split(",")]


def arranged(state: str) -> World:
    world = World()
    world.do(*MONEY, *ARRANGE[state])
    return world


def line(event: str) -> str:
    if event in COMMANDS:
        return f"{NOW} {COMMANDS[event]} i"
    if event == "launch_failed_before_host":
        return f"{NOW} report i launch_failed reached_host=false"
    return f"{NOW} report i {event}"


def of(sent: list[Sent], topic: str) -> list[dict[str, Any]]:
    return [each.value for each in sent if each.topic == topic]


def orders_of(sent: list[Sent]) -> list[str]:
    """`<order>:<n>/<attempt>`."""
    return [f"{each['order_id'].removeprefix('i:')}/{each['attempt']}" for each in of(sent, "host.orders")]


def changes_of(sent: list[Sent]) -> list[str]:
    """`<from>><to> <reason>`."""
    return [f"{each['from']}>{each['to']} {each['reason']}" for each in of(sent, "lifecycle.changes")]


def ignored(world: World) -> int:
    return sum(number for (kind, _), number in world.counts.items() if kind == "ignored")


def test_the_table_is_complete() -> None:
    assert len({(state, event) for state, event, *_ in EVENTS}) == len(EVENTS) == 10 * 18
    assert {state for state, *_ in EVENTS} == {state for state, *_ in TIMERS} == set(ARRANGE)


@pytest.mark.parametrize("row", EVENTS, ids=lambda row: f"{row[0]}-{row[1]}")
def test_state_and_event(row: list[str]) -> None:
    state, event, outcome, to, code, orders, held, meter, changes, settled = row
    world = arranged(state)
    before = world.view("instance", "i")["entered_at"]

    sent = world.do(line(event))
    if event in COMMANDS:
        (result,) = of(sent, "command.results")
        assert result.get("code", result["outcome"]) == outcome
        assert (result["status"], result["target"]) == (STATUSES[outcome], "i")
        assert not world.counts
    else:
        assert ignored(world) == (outcome in {"ignored", "same"})
    assert of(sent, "dead.letters") == []

    instance = world.view("instance", "i")
    assert instance["state"] == to
    assert (instance["error_code"] or "-") == code
    assert (instance["error_message"] is not None) == (code != "-")
    assert instance["gpus_held"] == (held == "yes")
    assert instance["meter"] == meter
    assert orders_of(sent) == words(orders)
    reason = REASONS.get(event, event.removesuffix("_before_host"))
    assert changes_of(sent) == [f"{change} {reason}" for change in words(changes)]
    usage = [(each["id"], each["duration_ms"]) for each in of(sent, "croesus.usage")]
    assert usage == [(f"i:{settled}:{rfc3339(to_ms(at))}", ms) for at, ms in (PIECES if settled != "-" else [])]
    assert instance["entered_at"] == (rfc3339(to_ms(NOW)) if words(changes) and to != state.split("_")[0] else before)
    for change in of(sent, "lifecycle.changes"):
        has_error = change["to"] in {"error", to}
        assert change.get("error_code") == (instance["error_code"] if has_error else None)
        assert change.get("error_message") == (instance["error_message"] if has_error else None)
    check_rows(world)
    check_outputs(world.all_sent)


@pytest.mark.parametrize(("state", "event"), [(row[0], row[1]) for row in EVENTS if row[2] == "ILLEGAL_TRANSITION"])
def test_a_refusal_names_the_instance_its_state_what_was_asked_and_what_is_allowed(state: str, event: str) -> None:
    (refused,) = arranged(state).do(line(event))
    shown = {"pending": "running", "error_held": "error"}.get(state, state)
    allowed = ALLOWED[state] or "nothing"
    assert refused.value["message"] == (
        f"instance i is {shown}; {event}_instance is not allowed there, allowed: {allowed}"
    )


@pytest.mark.parametrize("state", ARRANGE)
def test_the_allowed_actions_are_accepted_and_no_others(state: str) -> None:
    assert ", ".join(arranged(state).view("instance", "i")["allowed_actions"]) == ALLOWED[state]


TIMER_REASONS = {"starting": "start_timed_out", "stopping": "stop_timed_out", "creating": "create_timed_out"}
TIMER_REASONS |= {"error_held": "error_expired"}


@pytest.mark.parametrize("row", TIMERS, ids=lambda row: f"{row[0]}-{row[1]}")
def test_state_and_time(row: list[str]) -> None:
    state, after_ms, to, code, orders, held, meter, changes, pieces = row
    world = arranged(state)
    now = to_ms(ENTERED) + int(after_ms)
    assert not world.do(f"{ENTERED} tick"), "at once, nothing is due"
    sent = world.do(f"{to_clock(now)} tick")

    instance = world.view("instance", "i")
    assert instance["state"] == to
    assert (instance["error_code"] or "-") == code
    assert instance["gpus_held"] == (held == "yes")
    assert instance["meter"] == meter
    assert orders_of(sent) == words(orders)
    assert changes_of(sent) == [f"{change} {TIMER_REASONS[state]}" for change in words(changes)]
    billed = [each for each in of(sent, "croesus.usage") if each["id"].split(":")[1] == meter]
    assert len(billed) == (int(pieces) if pieces != "-" else 0)
    if words(changes):
        assert instance["entered_at"] == rfc3339(now)
        opened = [window["opened_at"] for window in instance["windows"] if window["ended_at"] is None]
        assert opened == ([rfc3339(now)] if meter != "none" else [])
    check_rows(world)


@pytest.mark.parametrize(
    ("state", "limit_ms"), [("creating", 21_600_000), ("starting", 1_800_000), ("stopping", 1_800_000)]
)
@pytest.mark.parametrize("silent_ms", [1, 1_800_000, 90_000_000])
def test_a_timer_starts_at_the_first_tick_that_is_applied(state: str, limit_ms: int, silent_ms: int) -> None:
    """I12: however long no tick came."""
    world = arranged(state)
    first = to_ms(ENTERED) + silent_ms
    for at in (first, first + limit_ms - 1):
        assert not changes_of(world.do(f"{to_clock(at)} tick"))
    assert [change.split()[1] for change in changes_of(world.do(f"{to_clock(first + limit_ms)} tick"))] == [
        TIMER_REASONS[state]
    ]


@pytest.mark.parametrize(
    ("state", "limit_ms"), [("creating", 21_600_000), ("starting", 1_800_000), ("stopping", 1_800_000)]
)
def test_a_timer_never_starts_before_the_state_was_entered(state: str, limit_ms: int) -> None:
    """I12: a tick with an earlier time that is applied after the entry."""
    world = arranged(state)
    world.do("12:18 tick")
    entered = to_ms(ENTERED)
    assert not changes_of(world.do(f"{to_clock(entered + limit_ms - 1)} tick"))
    assert changes_of(world.do(f"{to_clock(entered + limit_ms)} tick"))
