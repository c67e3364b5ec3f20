import inspect

import pytest

from bench.bench import restoring_s
from bench.child import BenchError, complaint
from streams.engine import intake, partitions

ASSIGNED = "[2026-11-29 20:10:40,711] [686] [INFO] partitions [0, 1] are this worker's, in generation {}"
AT_WORK = "[2026-11-29 20:10:43,499] [686] [INFO] partitions [0, 1] are at work"


def test_restoring_lasts_from_the_last_assignment_until_work() -> None:
    log = "\n".join(
        (
            ASSIGNED.format(1).replace("40,711", "39,000"),
            "[2026-11-29 20:10:40,000] [686] [INFO] restoring 2 partitions",
            ASSIGNED.format(2),
            AT_WORK,
        )
    )
    # 43.499 − 40.711
    assert restoring_s(log) == pytest.approx(2.788)


@pytest.mark.parametrize("log", ["", ASSIGNED.format(1), AT_WORK, f"{AT_WORK}\n{ASSIGNED.format(1)[:26]}"])
def test_a_log_that_does_not_tell_is_refused(log: str) -> None:
    with pytest.raises(BenchError, match="does not say"):
        restoring_s(log)


def test_the_words_of_the_engine_are_those_looked_for() -> None:
    source = inspect.getsource(partitions) + inspect.getsource(intake)
    assert "are this worker's, in generation" in source
    assert "are at work" in source


def test_a_complaint_starts_at_the_first_error() -> None:
    log = ["[INFO] a", "[ERROR] b", "Traceback", "[INFO] c"]
    assert complaint(log) == ["[ERROR] b", "Traceback", "[INFO] c"]


def test_without_an_error_the_last_lines_are_the_complaint() -> None:
    log = [f"[INFO] {number}" for number in range(100)]
    assert complaint(log) == log[60:]
