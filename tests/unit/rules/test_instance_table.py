"""Every state of an instance, by every command, report and timer: whole tables (I1 to I4, I9 to I11)."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.rules.instance_world import World, at

ENTERED = at("12:18:45.500")  # when the instance came into the state of the row
NOW = at("12:20:30.125")  # when the event happens

# What is owed of a meter that ran from ENTERED to NOW, settled by a change (I2).
OWED = ["12:18:45.500 14500", "12:19 60000", "12:20 30125"]


def creating(world: World) -> None:
    world.deploy("i", ENTERED)


def starting(world: World) -> None:
    _launch(world)
    world.stop("i", at("12:02"))
    world.report("i", "stop_confirmed", at("12:03"))
    world.start("i", ENTERED)


def running(world: World) -> None:
    world.deploy("i", at("12:00"))
    world.report("i", "workload_up", ENTERED)


def pending(world: World) -> None:
    """Running, with a stop pending: asked for at 11:45, judged at a tick, which has sent the order again."""
    world.deploy("i", at("11:40"))
    world.report("i", "workload_up", at("11:41"))
    world.stop("i", at("11:45"))
    world.tick(ENTERED)


def stopping(world: World) -> None:
    _launch(world)
    world.stop("i", ENTERED)


def stopped(world: World) -> None:
    _launch(world)
    world.stop("i", at("12:02"))
    world.report("i", "stop_confirmed", ENTERED)


def destroying(world: World) -> None:
    _launch(world)
    world.destroy("i", ENTERED)


def destroyed(world: World) -> None:
    _launch(world)
    world.destroy("i", at("12:02"))
    world.report("i", "teardown_finished", ENTERED)


def error(world: World) -> None:
    """It had run, and was lost: its GPUs are released."""
    _launch(world)
    world.report("i", "workload_lost", ENTERED)


def error_held(world: World) -> None:
    """It failed before reaching the host: it never ran, and holds its slice."""
    world.deploy("i", at("12:00"))
    world.report("i", "launch_failed_before_host", ENTERED)


def _launch(world: World) -> None:
    world.deploy("i", at("12:00"))
    world.report("i", "workload_up", at("12:01"))


ARRANGE: dict[str, Callable[[World], None]] = {
    arrange.__name__: arrange
    for arrange in (
        creating,
        starting,
        running,
        pending,
        stopping,
        stopped,
        destroying,
        destroyed,
        error,
        error_held,
    )
}


COMMANDS = ("deploy", "start", "stop", "destroy")
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


def test_the_table_is_whole() -> None:
    assert len({(state, event) for state, event, *_ in EVENTS}) == len(EVENTS) == 10 * 18
    assert {state for state, *_ in EVENTS} == {state for state, *_ in TIMERS} == set(ARRANGE)


@pytest.mark.parametrize("row", EVENTS, ids=lambda row: f"{row[0]}-{row[1]}")
def test_state_and_event(row: list[str]) -> None:
    state, event, answer, to, code, orders, held, meter, changes, settled = row
    world = World()
    ARRANGE[state](world)
    before = world.row("i").entered_at

    if event in COMMANDS:
        effect = world.command(event, "i", NOW)
        assert effect.answer == answer
        assert effect.result is not None
        assert effect.result.status == STATUSES[answer]
        assert effect.result.target == "i"
        reason = REASONS[event]
    else:
        effect = world.report("i", event, NOW)
        reason = event.removesuffix("_before_host")
    assert effect.dead is None
    if answer != "same":
        assert effect.ignored == (answer == "ignored")

    instance = world.row("i")
    assert world.state("i") == to
    assert (instance.error_code or "-") == code
    assert (instance.error_message is not None) == (code != "-")
    assert instance.gpus_held == (held == "yes")
    assert world.meter("i") == meter
    assert effect.orders == [f"i:{order}" for order in words(orders)]
    assert effect.changes == [f"i {change} {reason}" for change in words(changes)]
    assert effect.usage == ([f"i:{settled}:{piece}" for piece in OWED] if settled != "-" else [])
    assert instance.entered_at == (NOW if words(changes) and to != state.split("_")[0] else before)
    for told in effect.told:
        known = told.to in ("error", to)
        assert told.error_code == (instance.error_code if known else None)


@pytest.mark.parametrize(("state", "event"), [(row[0], row[1]) for row in EVENTS if row[2] == "ILLEGAL_TRANSITION"])
def test_a_refusal_names_the_instance_its_state_what_was_asked_and_what_is_allowed(state: str, event: str) -> None:
    world = World()
    ARRANGE[state](world)
    refused = world.command(event, "i", NOW).result
    assert refused is not None
    shown = {"pending": "running", "error_held": "error"}.get(state, state)
    allowed = ALLOWED[state] or "nothing"
    assert refused.message == f"instance i is {shown}; {event}_instance is not allowed there, allowed: {allowed}"


TIMER_REASONS = {"starting": "start_timed_out", "stopping": "stop_timed_out", "error_held": "error_expired"}


@pytest.mark.parametrize("row", TIMERS, ids=lambda row: f"{row[0]}-{row[1]}")
def test_state_and_time(row: list[str]) -> None:
    state, after_ms, to, code, orders, held, meter, changes, pieces = row
    world = World()
    ARRANGE[state](world)
    now = ENTERED + int(after_ms)
    effect = world.tick(now)

    instance = world.row("i")
    assert world.state("i") == to
    assert (instance.error_code or "-") == code
    assert instance.gpus_held == (held == "yes")
    assert world.meter("i") == meter
    assert effect.orders == [f"i:{order}" for order in words(orders)]
    assert effect.changes == [f"i {change} {TIMER_REASONS[state]}" for change in words(changes)]
    billed = [piece for piece in effect.usage if piece.split(":")[1] == meter]
    assert len(billed) == (int(pieces) if pieces != "-" else 0)
    if words(changes):
        assert instance.entered_at == now
        for window in instance.open_windows:
            assert window.opened_at == now
