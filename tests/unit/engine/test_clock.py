"""Waiting for an event ends with the event, the timeout or a cancellation, whichever is first."""

from __future__ import annotations

import asyncio

import pytest

from streams.engine.clock import SystemClock

TURNS = 20
"""Of the event loop: more than anything here takes to notice what it waits for."""

CLOCK = SystemClock()


async def turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


@pytest.mark.parametrize("timeout_s", [None, 60.0])
async def test_an_event_that_is_set_ends_the_wait(timeout_s: float | None) -> None:
    event = asyncio.Event()
    waiting = asyncio.create_task(CLOCK.wait(event, timeout_s))
    await turns(TURNS)
    assert not waiting.done()
    event.set()
    await turns(TURNS)
    assert waiting.done()


async def test_the_timeout_ends_the_wait() -> None:
    event = asyncio.Event()
    await CLOCK.wait(event, 0.0)
    assert not event.is_set()


@pytest.mark.parametrize("timeout_s", [None, 60.0])
@pytest.mark.parametrize("after", range(8))
async def test_a_cancellation_at_the_same_time_as_the_event_is_not_lost(timeout_s: float | None, after: int) -> None:
    event = asyncio.Event()

    async def forever() -> None:
        while True:
            await CLOCK.wait(event, timeout_s)
            event.clear()

    task = asyncio.create_task(forever())
    await turns(TURNS)
    event.set()
    await turns(after)
    task.cancel()
    await turns(TURNS)
    assert task.cancelled()
