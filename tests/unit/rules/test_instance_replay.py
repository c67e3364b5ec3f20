"""The output depends only on the input, not on crashes in between (B11), for instances."""

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.world.records import Numbers, Record, record
from tests.world.timeline import Act, acts, to_ms
from tests.world.ways import WAYS, Way, disturbed, in_order, undisturbed, written
from tests.world.world import World

START = to_ms("12:00")
MINUTE = 60_000
REPORTS = (
    "workload_up",
    "workload_up",
    "stop_confirmed",
    "stop_confirmed",
    "launch_failed",
    "launch_failed reached_host=false",
    "start_refused",
    "workload_failed",
    "workload_lost",
    "workload_gone",
    "found_running",
    "found_held",
    "teardown_finished",
)
COMMANDS = ("deploy", "start_instance", "stop_instance", "destroy_instance", "stop_instance", "start_instance")
ORGS, IDS = st.sampled_from(["acme", "bolt"]), st.sampled_from(["a", "b", "c"])
EVENTS = st.one_of(
    st.builds(lambda name, which: f"{name} {which}", st.sampled_from(COMMANDS), IDS),
    st.builds(lambda name, which: f"report {which} {name}", st.sampled_from(REPORTS), IDS),
    st.builds(lambda name, which: f"report {which} {name}", st.sampled_from(REPORTS), IDS),
    st.builds(lambda amount: f"balance {amount}", st.sampled_from(["1000", "150", "0", "-35"])),
    st.sampled_from(["tick", "tick", "ticks", "price instance.h100.1x 100", "price instance.h100.1x none"]),
)
PAUSES = st.sampled_from([0, 1, 500, 29_999, MINUTE, 31 * MINUTE, 61 * MINUTE, 25 * 60 * MINUTE])
STEPS = st.lists(st.tuples(PAUSES, ORGS, EVENTS), min_size=5, max_size=40)
BEGINNING = ["price instance.h100.1x 100", "price disk 0.01", "balance 1000", "deploy a", "report a workload_up"]


def log_of(steps: Sequence[tuple[int, str, str]]) -> list[Record]:
    """The steps as a log in the contract's order, which a late worker reads, too."""
    at, acts = START, [Act(START + n, "acme", words.split()) for n, words in enumerate(BEGINNING)]
    at += len(BEGINNING)
    for pause, org_id, words in steps:
        at += pause
        minutes = [n * MINUTE for n in range(1, 32)] if words == "ticks" else [0]
        acts += [Act(at + after, org_id, words.replace("ticks", "tick").split()) for after in minutes]
        at += minutes[-1]
    numbers = Numbers()
    return sorted((record(act, numbers) for act in acts), key=in_order)


@settings(max_examples=60, deadline=None)
@given(steps=STEPS, ways=WAYS, run=st.integers(1, 5))
def test_no_batch_and_no_crash_changes_a_byte(steps: list[tuple[int, str, str]], ways: list[Way], run: int) -> None:
    records = log_of(steps)
    steady, broken = undisturbed(records), disturbed(records, ways, run)
    assert written(broken) == written(steady)
    assert broken.counts() == steady.counts()
    for table in ("orgs", "instances", "windows", "answers"):
        assert broken.rows(table).keys() == steady.rows(table).keys()


def test_an_event_that_expires_before_the_commit_leaves_no_row() -> None:
    world = World()
    world.do("11:00 price instance.h100.1x 100", "11:00 price disk 0.01", "11:00 balance 1000", "12:00 deploy a")
    report, tick = (
        record(act, world.numbers) for line in ("12:01 report a workload_up", "1d 12:01 tick") for act in acts(line)
    )
    world.take([report, tick])
    assert world.driver.rows("events") == {}
