"""What goes out depends on what came in alone, not on where a worker died in between (B11), for instances."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.rules.instance_world import MINUTE, Effect, World, at

REPORTS = (
    "workload_up",
    "workload_up",
    "stop_confirmed",
    "stop_confirmed",
    "launch_failed",
    "launch_failed_before_host",
    "start_refused",
    "workload_failed",
    "workload_lost",
    "workload_gone",
    "found_running",
    "found_held",
    "teardown_finished",
)
IDS = st.sampled_from(["a", "b", "c"])
EVENTS = st.one_of(
    st.tuples(st.sampled_from(["deploy", "start", "stop", "destroy", "stop", "start"]), IDS),
    st.tuples(st.sampled_from(REPORTS), IDS),
    st.tuples(st.sampled_from(REPORTS), IDS),
    st.tuples(st.just("balance"), st.sampled_from(["1000", "150", "0", "-35"])),
    st.tuples(st.just("ticks"), st.sampled_from(["1", "31", "61"])),
    st.tuples(st.just("late tick"), st.sampled_from(["90", "1500"])),
    st.tuples(st.just("price"), st.sampled_from(["100", ""])),
)
WAITS = st.sampled_from([0, 1, 500, 29_999, MINUTE, -750])


def play(events: list[tuple[tuple[str, str], int]], restarts: set[int]) -> tuple[list[Effect], World]:
    world = World("1000")
    now = at("12:00")
    effects = [world.deploy("a", now), world.report("a", "workload_up", now + 1)]
    for position, ((name, what), wait) in enumerate(events):
        if position in restarts:
            world.restart()
        now += wait
        match name:
            case "ticks":
                minutes = int(what)
                effects.append(world.ticks(now + MINUTE, now + minutes * MINUTE))
                now += minutes * MINUTE
            case "late tick":
                now += int(what) * MINUTE
                effects.append(world.tick(now))
            case "balance":
                effects.append(world.balance(what, now))
            case "price":
                world.price("instance.a100.1x", what or None, now)
            case "deploy" | "start" | "stop" | "destroy":
                effects.append(world.command(name, what, now))
            case _:
                effects.append(world.report(what, name, now))
    return effects, world


@settings(max_examples=60, deadline=None)
@given(events=st.lists(st.tuples(EVENTS, WAITS), min_size=5, max_size=40), restarts=st.sets(st.integers(0, 39)))
def test_restarts_change_nothing_that_goes_out(events: list[tuple[tuple[str, str], int]], restarts: set[int]) -> None:
    steady, steady_world = play(events, set())
    broken, broken_world = play(events, restarts)
    for before, after in zip(steady, broken, strict=True):
        assert (before.result, before.orders, before.changes, before.told) == (
            after.result,
            after.orders,
            after.changes,
            after.told,
        )
        assert before.usage == after.usage
        assert before.counts == after.counts
        assert before.dead == after.dead
    assert list(steady_world.usage.items()) == list(broken_world.usage.items())
    assert steady_world.changelog.keys() == broken_world.changelog.keys()
