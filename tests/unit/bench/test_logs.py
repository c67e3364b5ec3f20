import inspect

import pytest

from bench.child import BenchError
from bench.logs import assigned_partitions, is_active, restoring_s
from streams.engine import intake, partitions

ASSIGNED = "[2026-11-29 20:10:40,711] [686] [INFO] partitions [0, 1] are assigned to this worker, in generation {}"
ACTIVE = "[2026-11-29 20:10:43,499] [686] [INFO] partitions [0, 1] are active"


def test_the_restore_is_measured_from_the_last_assignment() -> None:
    log = "\n".join(
        (
            ASSIGNED.format(1).replace("40,711", "39,000"),
            "[2026-11-29 20:10:40,000] [686] [INFO] restoring 2 partitions",
            ASSIGNED.format(2),
            ACTIVE,
        )
    )
    # 43.499 − 40.711
    assert restoring_s(log) == pytest.approx(2.788)


@pytest.mark.parametrize("log", ["", ASSIGNED.format(1), ACTIVE, f"{ACTIVE}\n{ASSIGNED.format(1)[:26]}"])
def test_an_incomplete_log_is_refused(log: str) -> None:
    with pytest.raises(BenchError, match="does not say"):
        restoring_s(log)


def test_a_worker_is_active_after_its_last_assignment() -> None:
    assert not is_active("")
    assert not is_active(ASSIGNED.format(1))
    assert is_active(f"{ASSIGNED.format(1)}\n{ACTIVE}")
    assert not is_active(f"{ASSIGNED.format(1)}\n{ACTIVE}\n{ASSIGNED.format(2)}")


def test_the_partitions_of_the_last_assignment_are_counted() -> None:
    four = ASSIGNED.format(1).replace("[0, 1]", "[0, 1, 2, 3]")
    assert assigned_partitions("") == 0
    assert assigned_partitions(four) == 4
    assert assigned_partitions(f"{four}\n{ASSIGNED.format(2)}") == 2
    assert assigned_partitions(f"{four}\n{ASSIGNED.format(2).replace('[0, 1]', '[]')}") == 0


def test_the_log_messages_are_those_of_the_engine() -> None:
    source = inspect.getsource(partitions) + inspect.getsource(intake)
    assert "are assigned to this worker, in generation" in source
    assert "are active" in source
