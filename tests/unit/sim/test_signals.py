"""Ctrl-C ends the demo and the fleet: once while they clean up, again where it was lost."""

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
"""Of the event loop: a process has its own signal at once, and the loop looks for it in the next one or two."""


async def interrupted(times: int) -> int:
    """How many of so many signals a task notices that goes on after each."""
    noticed = 0
    async with ended_by_signals():
        for _ in range(times):
            os.kill(os.getpid(), signal.SIGINT)
            try:
                for _ in range(TURNS):
                    await asyncio.sleep(0)
            except asyncio.CancelledError:
                noticed += 1
    return noticed


async def test_a_signal_cancels_once_while_there_is_cleaning_up() -> None:
    assert await asyncio.create_task(interrupted(3)) == 1


async def test_it_cancels_again_once_cleaning_up_should_be_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signals, "AGAIN_S", 0.0)
    assert await asyncio.create_task(interrupted(3)) == 3
