"""Fixtures of tests that take minutes."""

from __future__ import annotations

import time
from contextlib import nullcontext
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture(autouse=True)
def fewer_debug_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have workers check fewer rows per record than in other tests: these have whole days of records."""
    monkeypatch.setenv("OBOL_DEBUG_CHECKS", "1")


@pytest.fixture
def log_progress(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Return a function that prints the progress of a long test on the terminal, without pytest's capturing."""
    plugins = request.config.pluginmanager
    reporter, capturing = plugins.get_plugin("terminalreporter"), plugins.get_plugin("capturemanager")
    started_s = time.monotonic()

    def write(message: str) -> None:
        if reporter is not None:
            with nullcontext() if capturing is None else capturing.global_and_fixture_disabled():
                reporter.ensure_newline()
                reporter.write_line(f"{request.node.name} {time.monotonic() - started_s:4.0f} s: {message}")
                reporter.flush()

    return write
