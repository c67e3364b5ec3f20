"""Lives merged by time."""

from sim.agenda import Agenda
from sim.records import Record


def record(at_ms: int, name: str) -> Record:
    return Record(at_ms, "t", name, b"")


def told(agenda: Agenda, end_ms: int) -> list[tuple[int, str | None]]:
    return [(one.timestamp_ms, one.key) for one in agenda.until(end_ms)]


def test_lives_are_merged_by_time_up_to_the_end() -> None:
    agenda = Agenda()
    agenda.add("a", iter((record(1, "a"), record(4, "a"), record(9, "a"))))
    agenda.add("b", iter((record(2, "b"), record(3, "b"))))
    assert told(agenda, 4) == [(1, "a"), (2, "b"), (3, "b")]
    assert told(agenda, 10) == [(4, "a"), (9, "a")]
    assert told(agenda, 99) == []


def test_at_one_time_the_one_that_was_asked_first_comes_first() -> None:
    agenda = Agenda()
    agenda.add("a", iter((record(5, "a"),)))
    agenda.add("b", iter((record(5, "b"),)))
    assert told(agenda, 6) == [(5, "a"), (5, "b")]


def test_a_cancelled_life_says_nothing_more() -> None:
    agenda = Agenda()
    agenda.add("a", iter((record(1, "a"), record(2, "a"))))
    agenda.cancel("a")
    agenda.cancel("never was")
    assert told(agenda, 9) == []


def test_a_new_life_under_a_name_ends_the_one_before() -> None:
    agenda = Agenda()
    agenda.add("a", iter((record(1, "old"), record(2, "old"))))
    agenda.add("a", iter((record(3, "new"),)))
    assert told(agenda, 9) == [(3, "new")]


def test_whoever_takes_a_record_may_end_the_life_it_came_from() -> None:
    agenda = Agenda()
    agenda.add("a", iter((record(1, "a"), record(2, "a"))))
    taken = []
    for one in agenda.until(9):
        taken.append(one.timestamp_ms)
        agenda.add("a", iter((record(5, "a"),)))
        if len(taken) == 2:
            agenda.cancel("a")
    assert taken == [1, 5]
