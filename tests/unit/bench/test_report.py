import json
from io import StringIO

import pytest
from rich.console import Console

from bench import report
from bench.figures import Figure
from bench.sizes import DEFAULT, FULL, QUICK, REPLICAS_PER_DEPLOYMENT, Sizes

FIGURES = [
    Figure("heartbeats", "stock Faust agent", 2_833.4, "per second"),
    Figure("heartbeats", "Obol / stock, rate", 31.14, "times", 10.0),
    Figure("memory", "a running replica", 2_000.0, "bytes", 1_024.0, "less"),
    Figure("ticks", "windows billed", 104_000.0, "per second", span=(99_000.0, 122_000.0)),
]


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.0004567, "0.000457"), (1.358, "1.36"), (99.94, "99.9"), (100.4, "100"), (2_833.4, "2,833"), (1e6, "1,000,000")],
)
def test_numbers_are_formatted(value: float, shown: str) -> None:
    assert report.number(value) == shown


def test_the_table_has_each_part_once_and_whether_targets_are_met() -> None:
    out = StringIO()
    Console(file=out, width=120).print(report.table(FIGURES, "a run"))
    lines = [" ".join(line.split()) for line in out.getvalue().splitlines()]
    assert "heartbeats stock Faust agent 2,833 per second" in lines
    assert "Obol / stock, rate 31.1 times ≥ 10 yes" in lines
    assert "memory a running replica 2,000 bytes ≤ 1,024 no" in lines


def test_json_has_every_figure_and_whether_its_target_is_met() -> None:
    written = json.loads(report.to_json(FIGURES, QUICK, report.machine()))
    assert [figure["met"] for figure in written["figures"]] == [None, True, False, None]
    assert written["figures"][0]["value"] == 2_833.4
    assert written["sizes"]["replicas"] == 20_000
    assert written["machine"]["cores"] >= 1


@pytest.mark.parametrize("sizes", [QUICK, DEFAULT, FULL], ids=lambda sizes: sizes.name)
def test_sizes_fill_whole_deployments(sizes: Sizes) -> None:
    assert sizes.replicas % REPLICAS_PER_DEPLOYMENT == 0
    assert sizes.heartbeats == sizes.replicas * sizes.rounds
