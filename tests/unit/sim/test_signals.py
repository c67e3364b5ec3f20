"""Ctrl-C cancels the demo and the fleet once while they clean up, and again after the clean-up time."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import TYPE_CHECKING

from sim import signals
from sim.signals import ended_by_signals

if TYPE_CHECKING:
    import pytest

TURNS = 20
"""Iterations of the event loop after a signal; the loop handles it within one or two."""


async def interrupted(times: int) -> int:
    """Send signals to a task that continues after each. Returns how many cancelled it."""
    cancelled = 0
    async with ended_by_signals():
        for _ in range(times):
            os.kill(os.getpid(), signal.SIGINT)
            try:
                for _ in range(TURNS):
                    await asyncio.sleep(0)
            except asyncio.CancelledError:
                cancelled += 1
    return cancelled


async def test_further_signals_are_ignored_during_the_clean_up() -> None:
    assert await asyncio.create_task(interrupted(3)) == 1


async def test_a_signal_after_the_clean_up_time_cancels_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signals, "REPEAT_AFTER_S", 0.0)
    assert await asyncio.create_task(interrupted(3)) == 3
