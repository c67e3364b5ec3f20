from typing import Any

import pytest

from bench.child import BenchError
from bench.figures import Better, Figure, Figures, Sample, typical


@pytest.mark.parametrize(
    ("value", "target", "better", "met"),
    [
        (9.9, 10.0, "more", False),
        (10.0, 10.0, "more", True),
        (10.1, 10.0, "more", True),
        (1_023.0, 1_024.0, "less", True),
        (1_024.0, 1_024.0, "less", True),
        (1_025.0, 1_024.0, "less", False),
        (5.0, None, "more", None),
    ],
)
def test_a_target_is_met_or_not(value: float, target: float | None, better: Better, met: Any) -> None:
    assert Figure("part", "name", value, "unit", target, better).met is met


def test_rates_of_a_sample() -> None:
    # 200,000 in 4 s of wall time and 2 s of CPU time.
    sample = Sample(200_000, 4.0, 2.0)
    assert sample.per_s == 50_000
    assert sample.per_cpu_s == 100_000
    assert sample.cpu_s_per_million == 10


def test_work_that_was_done_at_once_has_no_rate() -> None:
    with pytest.raises(BenchError, match="too few"):
        _ = Sample(0, 0.0, 0.0).per_s


def test_the_typical_sample_is_the_median_of_each() -> None:
    # One outlier in elapsed time and another in CPU time have no effect.
    samples = [Sample(100, 1.0, 9.0), Sample(100, 2.0, 0.5), Sample(100, 30.0, 0.6)]
    assert typical(samples) == Sample(100, 2.0, 0.6)


def test_a_figure_is_found_by_its_name() -> None:
    found = Figures()
    found.add(Figure("ticks", "one tick", 2.0, "s"))
    assert found.value("ticks", "one tick") == 2.0
    with pytest.raises(KeyError):
        found.value("ticks", "another")
