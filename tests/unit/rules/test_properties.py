"""Properties of all logs of deployments, in order or not, with any batches and crashes (B1 to B12, R5, C1, C4)."""

import json
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.times import parse_rfc3339
from tests.world.checks import check_outputs, check_rows
from tests.world.records import Numbers, Record, record
from tests.world.timeline import Act, to_ms
from tests.world.ways import WAYS, Way, disturbed, in_order, undisturbed, written
from tests.world.world import World

START = to_ms("12:00")
MINUTE = 60_000
GRACE = 90_000
REPLICAS = [f"{deployment}-r{n}" for deployment in ("d1", "d2", "d3") for n in (1, 2, 3)]

EVENTS = st.one_of(
    st.just(["tick"]),
    st.just(["tick"]),
    st.builds(lambda replica: ["heartbeat", replica], st.sampled_from(REPLICAS)),
    st.builds(lambda replica: ["healthy", replica], st.sampled_from(REPLICAS)),
    st.builds(lambda replica: ["healthy", replica], st.sampled_from(REPLICAS[:4])),
    st.builds(lambda replica: ["restarting", replica], st.sampled_from(REPLICAS)),
    st.builds(
        lambda callback, replica: [callback, replica],
        st.sampled_from(["pulling", "server", "failed", "system_failure", "vm_crash"]),
        st.sampled_from(REPLICAS),
    ),
    st.builds(lambda deployment: ["request", deployment], st.sampled_from(["d1", "d2", "d3"])),
    st.builds(lambda deployment: ["stop", deployment], st.sampled_from(["d1", "d2", "d3"])),
    st.sampled_from([["suspend"], ["reinstate"]]),
    st.builds(
        lambda profile, price: ["price", profile, price],
        st.sampled_from(["dedicated.h100.1x", "dedicated.a100.2x"]),
        st.sampled_from(["2.50", "3", "none"]),
    ),
)
PAUSES = st.one_of(
    st.just(0),
    st.integers(1, 3),
    st.integers(1, 200_000),
    st.integers(1, 4).map(lambda n: n * 30_000),
    st.integers(1, 3).map(lambda n: n * 50 * MINUTE),
)
STEPS = st.lists(st.tuples(PAUSES, EVENTS), min_size=5, max_size=60)

BEGINNING = [
    ["price", "dedicated.h100.1x", "2.50"],
    ["price", "dedicated.a100.2x", "1.50"],
    ["create", "d1"],
    ["create", "d2", "min=2", "gpu=a100", "count=2", "idle=600"],
    ["create", "d3", "serving=serverless", "min=0"],
    ["healthy", "d1-r1"],
]
# All prices are set, no org is suspended, everything is stopped, and there are enough ticks to catch up.
END = [["price", "dedicated.h100.1x", "2.50"], ["price", "dedicated.a100.2x", "1.50"], ["reinstate"]]
END += [["stop", deployment] for deployment in ("d1", "d2", "d3")]


def log_of(steps: Sequence[tuple[int, list[str]]]) -> list[Record]:
    """The steps as a log, in the contract's order."""
    at, acts = START, [Act(START + n, "acme", words) for n, words in enumerate(BEGINNING)]
    at += len(BEGINNING)
    for pause, words in steps:
        at += pause
        acts.append(Act(at, "acme", words))
    acts += [Act(at + 1 + n, "acme", words) for n, words in enumerate(END)]
    minutes = (at - START) // MINUTE + 2
    acts += [Act(at + MINUTE * (1 + n), "acme", ["tick"]) for n in range(minutes // 60 + 2)]
    numbers = Numbers()
    return sorted((record(act, numbers) for act in acts), key=in_order)


@given(STEPS)
@settings(max_examples=80, deadline=None)
def test_usage_is_that_of_a_ledger_by_hand(steps: list[tuple[int, list[str]]]) -> None:
    """Running time, read off the changes, capped by the heartbeats (B2, B3), cut at clock minutes (B4): no more."""
    # One thing a millisecond: whether a heartbeat came before the end is then a matter of time alone.
    records = log_of([(max(pause, 1), words) for pause, words in steps])
    driver = undisturbed(records)

    signs: dict[str, list[int]] = defaultdict(list)
    for each in records:
        fields = json.loads(each.value or b"{}")
        if each.topic == "execlet.heartbeats" or fields.get("status") == "RUNNING":
            signs[fields["replica_id"]].append(each.timestamp)
    stretches: dict[str, list[tuple[int, int]]] = defaultdict(list)
    since: dict[str, int] = {}
    for change in driver.values("lifecycle.changes"):
        if change["kind"] != "replica" or change["id"].startswith("d3"):
            continue
        at = parse_rfc3339(change["at"])
        if change["to"] == "running":
            since[change["id"]] = at
        elif change.get("from") == "running":
            stretches[change["id"]].append((since.pop(change["id"]), at))
    assert not since, "everything was stopped"

    expected = []
    for replica, intervals in stretches.items():
        for start, end in intervals:
            last = max([start, *(sign for sign in signs[replica] if start <= sign <= end)])
            until = min(end, last + GRACE)
            expected += [(f"{replica}:{piece[0]}", piece[1]) for piece in minutes_between(start, until)]
    billed = [
        (f"{each['replica_id']}:{parse_rfc3339(each['interval_start'])}", parse_rfc3339(each["interval_end"]))
        for each in driver.values("croesus.usage")
    ]
    assert sorted(billed) == sorted(expected)


def minutes_between(start: int, end: int) -> list[tuple[int, int]]:
    marks = [at for at in range(start - start % MINUTE, end, MINUTE) if at > start]
    return [piece for piece in pairwise([start, *marks, end]) if piece[0] < piece[1]]


@given(STEPS, WAYS, st.integers(1, 5))
@settings(max_examples=80, deadline=None)
def test_no_batch_and_no_crash_changes_a_byte(steps: list[tuple[int, list[str]]], ways: list[Way], run: int) -> None:
    """B11, for every outbound topic."""
    records = log_of(steps)
    assert written(disturbed(records, ways, run)) == written(undisturbed(records))


@given(STEPS, st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_records_that_come_twice_change_nothing(steps: list[tuple[int, list[str]]], random: Random) -> None:
    """Duplicates, at once or, for records with an id, later (C1, C4): the same usage, changes, orders and results."""
    records = log_of(steps)
    expected = written(undisturbed(records))

    again = []
    for each in records:
        again.append(each)
        later = random.random()
        if later < 0.3:
            again.append(each)
        elif later < 0.5 and each.topic in {"execlet.progress", "user.commands"}:
            again.append(each._replace(timestamp=each.timestamp + int(later * 10_000_000)))
    end = again[-1].timestamp
    found = written(undisturbed(sorted((each for each in again if each.timestamp <= end), key=in_order)))

    for topic in ("lifecycle.changes", "execlet.orders"):
        assert found[topic] == expected[topic]
    # With twice the ticks, catching up is twice as fast (B5): the times of sending may differ, the events may not.
    assert sorted(usage[2] or b"" for usage in found["croesus.usage"]) == sorted(
        usage[2] or b"" for usage in expected["croesus.usage"]
    )
    assert {result[2] for result in found["command.results"]} == {result[2] for result in expected["command.results"]}


@given(STEPS, st.lists(st.integers(-400_000, 0), min_size=60, max_size=60))
@settings(max_examples=80, deadline=None)
def test_times_out_of_order_make_no_overlap_and_lose_nothing(
    steps: list[tuple[int, list[str]]], shifts: list[int]
) -> None:
    """B1 D, B10, B12: any times, one record after the other."""
    world = World()
    ordered = log_of(steps)
    shifts = [*[0] * len(BEGINNING), *shifts[: len(steps)], *[0] * len(ordered)]
    for each, shift in zip(ordered, shifts, strict=False):
        world.take([each._replace(timestamp=each.timestamp + shift)])
        check_rows(world)
    check_outputs(world.all_sent)

    pieces: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for topic, _, _, value, _ in world.all_sent:
        if topic == "croesus.usage":
            start, end = parse_rfc3339(value["interval_start"]), parse_rfc3339(value["interval_end"])
            pieces[value["replica_id"]].append((start, end))
    for intervals in pieces.values():
        assert all(before[1] <= after[0] for before, after in pairwise(sorted(intervals))), "a ms was billed twice"
    for replica in world.all("replica"):
        windows = sorted(replica["windows"], key=lambda window: int(window["window_id"].rpartition(".w")[2]))
        for before, after in pairwise(windows):
            assert after["opened_at"] >= max(before["ended_at"], before["opened_at"])
        for window in windows:
            assert window["pending_ms"] == 0, "all is billed"
            assert window["opened_at"] <= window["ended_at"]
            opened, until = parse_rfc3339(window["opened_at"]), parse_rfc3339(window["billed_until"])
            mine = [piece for piece in pieces[replica["replica_id"]] if opened <= piece[0] < piece[1]]
            mine = [piece for piece in mine if piece[1] <= max(until, parse_rfc3339(window["ended_at"]))]
            assert sum(end - start for start, end in mine) == window["billed_ms"]
