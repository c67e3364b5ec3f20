"""Runs each timeline of this folder in each mode; the outputs are the same (B11)."""

from pathlib import Path

import pytest

from tests.world.scenario import Scenario
from tests.world.world import Mode

TIMELINES = sorted(Path(__file__).parent.glob("*.txt"))


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("path", TIMELINES, ids=lambda path: path.stem)
def test_scenario(path: Path, mode: Mode) -> None:
    Scenario(path, mode).play()


def test_there_is_a_timeline_for_every_rule() -> None:
    rules = {f"b{n}" for n in (*range(1, 14), 20, 21, 22, 23)} | {f"p{n}" for n in range(1, 9)}
    rules |= {f"r{n}" for n in range(1, 7)} | {f"c{n}" for n in range(1, 7)} | {f"i{n}" for n in range(1, 13)} | {"n1"}
    named = {rule for path in TIMELINES for rule in path.stem.split("_")}
    assert rules <= named, f"no timeline for {sorted(rules - named)}"
