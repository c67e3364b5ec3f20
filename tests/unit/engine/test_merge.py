"""The contract's order: the smallest (timestamp, rank) among the heads; within one topic, the offset decides."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.times import MAX_TIME_MS
from streams.engine.merge import NEVER, Damage, LostRecordsError, Merge, Run, Wait

ACCOUNTS, COMMANDS, CLOCK = "accounts", "commands", "clock"
TOPICS = ((ACCOUNTS, 1, 100), (COMMANDS, 2, 100), (CLOCK, 7, 1))
STALL_TIMEOUT_S = 2.0


@dataclass(frozen=True)
class Rec:
    offset: int
    timestamp: int
    key: bytes | None = None
    value: bytes | None = b"{}"
    headers: tuple[tuple[str, bytes], ...] = ()


def records(times: list[int], first: int = 0) -> list[Rec]:
    return [Rec(first + at, time) for at, time in enumerate(times)]


def merge_of(logs: dict[str, list[int]]) -> Merge:
    """Return a merge with all logs read to their known end offsets."""
    merge = Merge(TOPICS, stall_timeout_s=STALL_TIMEOUT_S)
    for topic, times in logs.items():
        merge.feed(topic, records(times), 0, len(times), asked=0)
    merge.set_ends({topic: len(times) for topic, times in logs.items()}, asked=1)
    return merge


def names(run: Run) -> list[tuple[str, int]]:
    return [(run.topic, record.offset) for record in run.batch.records[run.start : run.end]]


def drained(merge: Merge, now_s: float = 0.0) -> list[tuple[str, int]]:
    applied: list[tuple[str, int]] = []
    while (run := merge.next_run(now_s)) is not None:
        applied += names(run)
    return applied


@pytest.mark.parametrize(
    ("logs", "order"),
    [
        # Time decides.
        ({COMMANDS: [10, 30], ACCOUNTS: [20]}, [(COMMANDS, 0), (ACCOUNTS, 0), (COMMANDS, 1)]),
        # At one time, rank does, whichever was fed first.
        ({CLOCK: [10], COMMANDS: [10], ACCOUNTS: [10]}, [(ACCOUNTS, 0), (COMMANDS, 0), (CLOCK, 0)]),
        # A tick comes after everything of its millisecond, and before the next.
        ({CLOCK: [10], COMMANDS: [9, 10, 11]}, [(COMMANDS, 0), (COMMANDS, 1), (CLOCK, 0), (COMMANDS, 2)]),
        # Within a topic the offset decides: 5 waits behind 30.
        ({COMMANDS: [30, 5], ACCOUNTS: [10, 40]}, [(ACCOUNTS, 0), (COMMANDS, 0), (COMMANDS, 1), (ACCOUNTS, 1)]),
        # The record behind it is then a head like any other.
        (
            {COMMANDS: [30, 5, 50], ACCOUNTS: [29, 31, 49]},
            [(ACCOUNTS, 0), (COMMANDS, 0), (COMMANDS, 1), (ACCOUNTS, 1), (ACCOUNTS, 2), (COMMANDS, 2)],
        ),
        ({}, []),
    ],
)
def test_the_next_record_has_the_smallest_time_and_rank_among_the_heads(
    logs: dict[str, list[int]], order: list[tuple[str, int]]
) -> None:
    assert drained(merge_of(logs)) == order


def test_a_run_goes_up_to_the_next_head_of_another_topic() -> None:
    merge = merge_of({COMMANDS: [1, 2, 3, 20, 21], ACCOUNTS: [3, 10]})
    runs = []
    while (run := merge.next_run(0.0)) is not None:
        runs.append(names(run))
    assert runs == [
        [(COMMANDS, 0), (COMMANDS, 1)],
        [(ACCOUNTS, 0)],
        [(COMMANDS, 2)],
        [(ACCOUNTS, 1)],
        [(COMMANDS, 3), (COMMANDS, 4)],
    ]


def test_a_run_has_at_most_the_topics_maximum() -> None:
    merge = merge_of({CLOCK: [1, 2, 3]})
    assert [names(run) for run in iter(lambda: merge.next_run(0.0), None)] == [[(CLOCK, 0)], [(CLOCK, 1)], [(CLOCK, 2)]]


def test_nothing_is_applied_before_a_later_request_for_end_offsets() -> None:
    merge = Merge(TOPICS, stall_timeout_s=STALL_TIMEOUT_S)
    merge.feed(COMMANDS, records([10]), 0, 1, asked=3)
    merge.set_ends({}, asked=3)
    assert merge.next_run(0.0) is None
    assert merge.wait == Wait()
    assert merge.wait.is_for_end_offsets
    merge.set_ends({}, asked=4)
    assert drained(merge) == [(COMMANDS, 0)]


def test_no_end_offsets_are_needed_when_every_topic_has_a_head() -> None:
    merge = Merge(TOPICS, stall_timeout_s=STALL_TIMEOUT_S)
    for topic, _, _ in TOPICS:
        merge.feed(topic, records([10]), 0, 1, asked=0)
    assert drained(merge) == [(ACCOUNTS, 0)]


def test_a_topic_with_lag_is_waited_for_until_the_stall_timeout() -> None:
    merge = merge_of({CLOCK: [10]})
    merge.set_ends({COMMANDS: 1}, asked=2)
    assert merge.next_run(100.0) is None
    assert merge.wait == Wait(COMMANDS, 102.0)
    assert not merge.wait.is_for_end_offsets
    assert merge.next_run(101.9) is None
    assert drained(merge, 102.0) == [(CLOCK, 0)]


def test_the_first_of_two_stall_timeouts_counts() -> None:
    merge = merge_of({CLOCK: [10]})
    merge.set_ends({COMMANDS: 1}, asked=2)
    assert merge.next_run(0.0) is None
    merge.set_ends({ACCOUNTS: 1}, asked=3)
    assert merge.next_run(1.0) is None
    assert merge.wait == Wait(COMMANDS, 2.0)
    assert merge.next_run(2.0) is None
    assert merge.wait == Wait(ACCOUNTS, 3.0)
    assert drained(merge, 3.0) == [(CLOCK, 0)]


def test_after_a_stall_timeout_a_topic_is_not_waited_for_until_records_arrive() -> None:
    merge = merge_of({CLOCK: [10]})
    merge.set_ends({COMMANDS: 5}, asked=2)
    assert merge.next_run(0.0) is None
    assert drained(merge, 2.0) == [(CLOCK, 0)]
    merge.feed(CLOCK, records([20], first=1), 1, 2, asked=2)
    merge.set_ends({}, asked=3)
    assert drained(merge, 2.5) == [(CLOCK, 1)]
    merge.feed(COMMANDS, records([11]), 0, 1, asked=3)
    merge.feed(CLOCK, records([30], first=2), 2, 3, asked=3)
    merge.set_ends({}, asked=4)
    assert drained(merge, 3.0) == [(COMMANDS, 0)]
    assert merge.wait == Wait(COMMANDS, 5.0)


def test_a_record_that_arrives_in_time_comes_first() -> None:
    merge = merge_of({CLOCK: [10]})
    merge.set_ends({COMMANDS: 1}, asked=2)
    assert merge.next_run(100.0) is None
    merge.feed(COMMANDS, records([9]), 0, 1, asked=2)
    merge.set_ends({}, asked=3)
    assert drained(merge, 101.0) == [(COMMANDS, 0), (CLOCK, 0)]


def test_the_stall_timeout_starts_again_with_each_arrival() -> None:
    merge = merge_of({CLOCK: [10]})
    merge.set_ends({COMMANDS: 2}, asked=2)
    assert merge.next_run(0.0) is None
    merge.feed(COMMANDS, records([1]), 0, 1, asked=2)
    merge.set_ends({}, asked=3)
    assert names(merge.next_run(1.9) or pytest.fail("a run was due")) == [(COMMANDS, 0)]
    assert merge.next_run(1.9) is None
    assert merge.wait == Wait(COMMANDS, 3.9)


def test_a_marker_counts_as_read() -> None:
    merge = merge_of({CLOCK: [10]})
    merge.set_ends({COMMANDS: 1}, asked=2)
    assert merge.next_run(0.0) is None
    merge.feed(COMMANDS, [], 0, 1, asked=2)
    assert drained(merge) == [(CLOCK, 0)]
    assert merge.queues[COMMANDS].next_offset == 1


def test_the_next_offset_is_before_queued_records() -> None:
    merge = merge_of({COMMANDS: [10, 20], ACCOUNTS: [15]})
    merge.feed(COMMANDS, [], 2, 3, asked=1)
    assert merge.queues[COMMANDS].next_offset == 0
    assert names(merge.next_run(0.0) or pytest.fail("a run was due")) == [(COMMANDS, 0)]
    assert merge.queues[COMMANDS].next_offset == 1
    drained(merge)
    assert merge.queues[COMMANDS].next_offset == 3


def test_the_merge_waits_for_prices_which_it_does_not_queue() -> None:
    merge = merge_of({CLOCK: [10]})
    merge.set_ends({ACCOUNTS: 4}, asked=2)
    merge.set_read(ACCOUNTS, 3)
    assert merge.next_run(0.0) is None
    merge.set_read(ACCOUNTS, 4)
    assert drained(merge) == [(CLOCK, 0)]


def test_records_fed_before_are_left_out() -> None:
    merge = merge_of({COMMANDS: [10, 20]})
    merge.feed(COMMANDS, records([10, 20, 30]), 0, 3, asked=0)
    merge.feed(COMMANDS, records([10]), 0, 1, asked=0)
    assert drained(merge) == [(COMMANDS, 0), (COMMANDS, 1), (COMMANDS, 2)]


def test_a_gap_is_refused() -> None:
    merge = merge_of({COMMANDS: [10]})
    with pytest.raises(LostRecordsError, match="commands: read from offset 2, but 1 is next"):
        merge.feed(COMMANDS, records([30], first=2), 2, 3, asked=0)


def test_a_restart_continues_from_positions_and_times() -> None:
    merge = merge_of({COMMANDS: [10, 20]})
    merge.restart({COMMANDS: 1}, {COMMANDS: 10, CLOCK: 40})
    assert merge.as_of == 40
    merge.feed(COMMANDS, records([20], first=1), 1, 2, asked=5)
    assert merge.next_run(0.0) is None, "answers from before the restart don't count"
    merge.set_ends({}, asked=6)
    run = merge.next_run(0.0)
    assert run is not None
    assert (names(run), run.late) == ([(COMMANDS, 1)], 1)


@pytest.mark.parametrize(
    ("applied_before", "times", "late"),
    [
        ({}, [1, 2, 3], 0),
        ({CLOCK: 10}, [1, 2, 3], 3),
        ({CLOCK: 10}, [9, 10, 11], 2),  # at 10 a command should have come before the tick
        ({ACCOUNTS: 10}, [9, 10, 11], 1),  # at 10 a command comes after an account's event
        ({CLOCK: 10, COMMANDS: 12}, [9, 10, 11], 0),  # behind a later one of its own topic, it had to wait
        ({CLOCK: 10}, [5, 20, 6], 1),
        ({COMMANDS: 10}, [9], 0),
    ],
)
def test_a_record_is_late_after_one_of_another_topic_that_it_should_have_preceded(
    applied_before: dict[str, int], times: list[int], late: int
) -> None:
    merge = Merge(TOPICS, stall_timeout_s=STALL_TIMEOUT_S)
    merge.restart({}, applied_before)
    merge.feed(COMMANDS, records(times), 0, len(times), asked=0)
    merge.set_ends({}, asked=1)
    counted = 0
    while (run := merge.next_run(0.0)) is not None:
        counted += run.late
    assert counted == late


def test_as_of_is_the_greatest_time_applied() -> None:
    merge = merge_of({COMMANDS: [10, 5], ACCOUNTS: [7, 50]})
    assert merge.as_of == NEVER
    seen = []
    while merge.next_run(0.0) is not None:
        seen.append(merge.as_of)
    assert seen == [7, 10, 50]


def reference(logs: dict[str, list[int]]) -> list[tuple[str, int]]:
    """The contract's order, record by record."""
    ranks = {topic: rank for topic, rank, _ in TOPICS}
    at = dict.fromkeys(logs, 0)
    order = []
    while heads := [(logs[topic][at[topic]], ranks[topic], topic) for topic in logs if at[topic] < len(logs[topic])]:
        _, _, topic = min(heads)
        order.append((topic, at[topic]))
        at[topic] += 1
    return order


times_of_a_log = st.lists(st.integers(0, 30), max_size=12)


@given(
    logs=st.fixed_dictionaries({topic: times_of_a_log for topic, _, _ in TOPICS}),
    pick=st.lists(st.tuples(st.sampled_from([topic for topic, _, _ in TOPICS]), st.integers(1, 5)), max_size=40),
)
def test_any_batching_of_the_same_logs_gives_the_same_order(
    logs: dict[str, list[int]], pick: list[tuple[str, int]]
) -> None:
    merge = Merge(TOPICS, stall_timeout_s=STALL_TIMEOUT_S)
    # All records were in the logs from the start.
    ends = {topic: len(times) for topic, times in logs.items()}
    merge.set_ends(ends, asked=1)
    fed = dict.fromkeys(logs, 0)
    applied: list[tuple[str, int]] = []
    for topic, count in [*pick, *((topic, 12) for topic in logs)]:
        start = fed[topic]
        fed[topic] = end = min(len(logs[topic]), start + count)
        merge.feed(topic, records(logs[topic][start:end], start), start, end, asked=0)
        applied += drained(merge)
    assert applied == reference(logs)


@given(logs=st.fixed_dictionaries({topic: times_of_a_log for topic, _, _ in TOPICS}))
def test_nothing_is_late_when_everything_was_read(logs: dict[str, list[int]]) -> None:
    merge = merge_of(logs)
    late = 0
    while (run := merge.next_run(0.0)) is not None:
        late += run.late
    assert late == 0


@pytest.mark.parametrize("time", [-1, MAX_TIME_MS + 1, 2**63 - 1])
def test_a_time_out_of_range_is_applied_at_once_and_changes_no_time(time: int) -> None:
    merge = Merge(TOPICS, stall_timeout_s=STALL_TIMEOUT_S)
    merge.feed(COMMANDS, records([10, time, 20, time]), 0, 4, asked=0)
    merge.feed(CLOCK, records([time, time, 5]), 0, 3, asked=0)
    # No end offset is known. The first two are heads; a tick is a run of its own.
    assert drained(merge) == [(CLOCK, 0), (CLOCK, 1)]
    assert merge.wait is not None
    assert merge.wait.is_for_end_offsets
    assert (merge.as_of, merge.queues[CLOCK].time) == (NEVER, NEVER)
    merge.set_ends({COMMANDS: 4, CLOCK: 3}, asked=1)
    assert drained(merge) == [(CLOCK, 2), (COMMANDS, 0), (COMMANDS, 1), (COMMANDS, 2), (COMMANDS, 3)]
    assert (merge.as_of, merge.lag_records) == (20, 0)


def test_a_time_out_of_range_is_neither_late_nor_the_newest() -> None:
    merge = Merge(TOPICS, stall_timeout_s=STALL_TIMEOUT_S)
    merge.feed(CLOCK, records([50]), 0, 1, asked=0)
    merge.set_ends({}, asked=1)
    assert drained(merge) == [(CLOCK, 0)]
    merge.feed(ACCOUNTS, records([-5, 2**60]), 0, 2, asked=1)
    assert merge.newest is None
    run = merge.next_run(0.0)
    assert run is not None
    assert (names(run), run.late, merge.as_of) == ([(ACCOUNTS, 0), (ACCOUNTS, 1)], 0, 50)


def test_a_topic_that_can_t_be_read_is_waited_for_without_a_timeout() -> None:
    merge = merge_of({COMMANDS: [10], ACCOUNTS: [5]})
    merge.block(ACCOUNTS, Damage(1, "a bit"))
    assert merge.blocked == (ACCOUNTS, Damage(1, "a bit"))
    assert drained(merge) == [(ACCOUNTS, 0)]
    assert merge.wait == Wait(ACCOUNTS)
    assert drained(merge, 1_000_000.0) == []
    merge.feed(ACCOUNTS, records([7], 1), 1, 2, asked=1)
    merge.block(ACCOUNTS, None)
    merge.set_ends({}, asked=2)
    assert drained(merge, 1_000_000.0) == [(ACCOUNTS, 1), (COMMANDS, 0)]


def test_a_restart_forgets_what_could_not_be_read() -> None:
    merge = merge_of({})
    merge.block(CLOCK, Damage(1, "a bit"))
    merge.restart({}, {})
    assert merge.blocked is None
