"""A task that is cancelled ends; else a stop, or a rebalance, would hang."""

from __future__ import annotations

import asyncio

import pytest

from streams.engine import tasks
from streams.engine.tasks import cancel_and_wait, stop_client

TURNS = 20
"""Of the event loop: more than anything here takes to start waiting."""


async def test_a_task_that_has_lost_its_cancellation_is_cancelled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "CANCEL_AGAIN_S", 0.0)
    lost = []

    async def ignoring_cancellation() -> None:
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                lost.append(1)
                if len(lost) == 3:
                    raise

    task = asyncio.create_task(ignoring_cancellation())
    for _ in range(TURNS):
        await asyncio.sleep(0)
    await asyncio.wait_for(cancel_and_wait([task]), 60)
    assert task.cancelled()
    assert len(lost) == 3


async def test_no_tasks_are_no_error() -> None:
    await cancel_and_wait([])


async def test_a_client_whose_stop_raises_the_cancellation_of_its_own_task_is_stopped() -> None:
    async def stop() -> None:
        own = asyncio.create_task(asyncio.sleep(60.0))
        own.cancel()
        await own

    await stop_client(stop())


async def test_a_task_that_is_cancelled_while_a_client_stops_is_cancelled() -> None:
    task = asyncio.create_task(stop_client(asyncio.sleep(60.0)))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
