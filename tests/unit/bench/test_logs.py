import inspect

import pytest

from bench.bench import restoring_s
from bench.child import BenchError
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


def test_the_log_messages_are_those_of_the_engine() -> None:
    source = inspect.getsource(partitions) + inspect.getsource(intake)
    assert "are assigned to this worker, in generation" in source
    assert "are active" in source
