"""In these tests the engine does not end the process: `ProcessEndedError` is raised instead."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from streams.engine import commit, fatal, partitions
from tests.unit.engine.fakes import ENDS, process_ends

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _process_stays(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fail a test in which the process would end unexpectedly, also when only a task raises the error."""
    ENDS.clear()
    for module in (commit, fatal, partitions):
        monkeypatch.setattr(module, "end_process", process_ends)
    yield
    assert ENDS == []
