"""Which offsets of the changelogs are in memory."""

from __future__ import annotations

import pytest

from streams.engine.changelogs import Changelogs, new_changelog
from streams.settings import Settings

ORGS, POSITIONS = "obol-orgs-changelog", "obol-positions-changelog"


@pytest.fixture
def changelogs() -> Changelogs:
    return Changelogs("obol", ["orgs", "positions"])


@pytest.mark.parametrize(("replication", "stored"), [(1, "1"), (2, "1"), (3, "2"), (5, "4")])
def test_changelogs_are_as_durable_as_outputs(replication: int, stored: str) -> None:
    config = new_changelog(ORGS, Settings.from_env({"OBOL_REPLICATION": str(replication)})).config
    assert config["min.insync.replicas"] == stored
    assert config["cleanup.policy"] == "compact"


def test_changelogs_have_fausts_names(changelogs: Changelogs) -> None:
    assert changelogs.name("orgs") == ORGS
    assert changelogs.table(POSITIONS) == "positions"
    assert changelogs.of([0, 3]) == [(ORGS, 0), (POSITIONS, 0), (ORGS, 3), (POSITIONS, 3)]


def test_a_changelog_is_restored_when_the_offset_before_its_end_is_in_memory(changelogs: Changelogs) -> None:
    changelogs.expect({(ORGS, 0): 10, (POSITIONS, 0): 0, (ORGS, 1): 0, (POSITIONS, 1): 0})
    assert (changelogs.expected(0), changelogs.expected(1)) == (10, 0)
    assert changelogs.restored_to((ORGS, 0)) == -1
    assert changelogs.unrestored([0, 1]) == [(ORGS, 0)]
    changelogs.advance((ORGS, 0), 8)
    assert changelogs.unrestored([0, 1]) == [(ORGS, 0)]
    changelogs.advance((ORGS, 0), 9)
    assert changelogs.unrestored([0, 1]) == []


def test_the_restored_offset_decreases_only_when_the_partition_is_dropped(changelogs: Changelogs) -> None:
    changelogs.advance((ORGS, 0), 9)
    changelogs.advance((ORGS, 1), 4)
    changelogs.advance((ORGS, 0), 7)
    assert changelogs.restored_to((ORGS, 0)) == 9
    changelogs.drop(0)
    assert (changelogs.restored_to((ORGS, 0)), changelogs.restored_to((ORGS, 1))) == (-1, 4)
