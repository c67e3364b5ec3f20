"""The process that these tests run in does not end when the engine says so: `ProcessEndedError` is raised instead."""

from __future__ import annotations

import pytest

from streams.engine import commit, fatal, partitions
from tests.unit.engine.fakes import process_ends


@pytest.fixture(autouse=True)
def _process_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (commit, fatal, partitions):
        monkeypatch.setattr(module, "end_process", process_ends)
