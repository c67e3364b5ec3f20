"""What tests that take minutes share."""

from __future__ import annotations

import time
from contextlib import nullcontext
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def tell(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Say on the terminal, past pytest's capturing, how far a long test is."""
    plugins = request.config.pluginmanager
    reporter, capturing = plugins.get_plugin("terminalreporter"), plugins.get_plugin("capturemanager")
    started_s = time.monotonic()

    def say(words: str) -> None:
        if reporter is not None:
            with nullcontext() if capturing is None else capturing.global_and_fixture_disabled():
                reporter.ensure_newline()
                reporter.write_line(f"{request.node.name} {time.monotonic() - started_s:4.0f} s: {words}")
                reporter.flush()

    return say
