"""A task that is cancelled ends, whatever else happens at that moment; else a stop, or a rebalance, would hang."""

from __future__ import annotations

import asyncio

import pytest

from streams.engine import tasks
from streams.engine.tasks import ended, happens

TURNS = 20
"""Of the event loop: more than anything here takes to notice what it waits for."""


async def turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_what_happens_is_noticed() -> None:
    event = asyncio.Event()
    event.set()
    await happens(event)
    await happens(event, within_s=60.0)


async def test_what_does_not_happen_is_waited_for_no_longer_than_said() -> None:
    event = asyncio.Event()
    await happens(event, within_s=0.0)
    assert not event.is_set()


@pytest.mark.parametrize("within_s", [None, 60.0])
@pytest.mark.parametrize("after", range(8))
async def test_a_cancellation_is_not_lost_to_the_event_that_comes_with_it(within_s: float | None, after: int) -> None:
    event = asyncio.Event()

    async def forever() -> None:
        while True:
            await happens(event, within_s)
            event.clear()

    task = asyncio.create_task(forever())
    await turns(TURNS)
    event.set()
    await turns(after)
    task.cancel()
    await turns(TURNS)
    assert task.cancelled()


async def test_a_task_that_has_lost_its_cancellation_is_cancelled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "CANCEL_AGAIN_S", 0.0)
    lost = []

    async def deaf() -> None:
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                lost.append(1)
                if len(lost) == 3:
                    raise

    task = asyncio.create_task(deaf())
    await turns(TURNS)
    await asyncio.wait_for(ended([task]), 60)
    assert task.cancelled()
    assert len(lost) == 3


async def test_there_may_be_none_to_end() -> None:
    await ended([])
