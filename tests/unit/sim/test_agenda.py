"""The agenda merges actors by time."""

from sim.agenda import Agenda
from sim.records import Record


def record(at_ms: int, name: str) -> Record:
    return Record(at_ms, "t", name, b"")


def keys(agenda: Agenda, end_ms: int) -> list[tuple[int, str | None]]:
    return [(one.timestamp_ms, one.key) for one in agenda.until(end_ms)]


def test_actors_are_merged_by_time_up_to_the_end() -> None:
    agenda = Agenda()
    agenda.add("a", iter((record(1, "a"), record(4, "a"), record(9, "a"))))
    agenda.add("b", iter((record(2, "b"), record(3, "b"))))
    assert keys(agenda, 4) == [(1, "a"), (2, "b"), (3, "b")]
    assert keys(agenda, 10) == [(4, "a"), (9, "a")]
    assert keys(agenda, 99) == []


def test_equal_times_are_in_order_of_generation() -> None:
    agenda = Agenda()
    agenda.add("a", iter((record(5, "a"),)))
    agenda.add("b", iter((record(5, "b"),)))
    assert keys(agenda, 6) == [(5, "a"), (5, "b")]


def test_a_cancelled_actor_yields_no_more_records() -> None:
    agenda = Agenda()
    agenda.add("a", iter((record(1, "a"), record(2, "a"))))
    agenda.cancel("a")
    agenda.cancel("never was")
    assert keys(agenda, 9) == []


def test_an_actor_replaces_the_one_of_the_same_name() -> None:
    agenda = Agenda()
    agenda.add("a", iter((record(1, "old"), record(2, "old"))))
    agenda.add("a", iter((record(3, "new"),)))
    assert keys(agenda, 9) == [(3, "new")]


def test_the_caller_may_replace_or_cancel_the_actor_of_a_record() -> None:
    agenda = Agenda()
    agenda.add("a", iter((record(1, "a"), record(2, "a"))))
    taken = []
    for one in agenda.until(9):
        taken.append(one.timestamp_ms)
        agenda.add("a", iter((record(5, "a"),)))
        if len(taken) == 2:
            agenda.cancel("a")
    assert taken == [1, 5]
