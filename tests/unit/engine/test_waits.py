"""Long waits are logged once, and end the process after their deadline."""

from __future__ import annotations

import asyncio

import pytest

from streams.engine.fatal import Accident, AccidentError
from streams.engine.tasks import cancel_and_wait
from streams.engine.waits import Waits
from tests.unit.engine.fakes import FakeClock


class Cluster:
    answers = True


async def test_a_wait_is_logged_once_and_ends_the_process_after_its_deadline(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    clock = FakeClock()
    waits = Waits(clock, lambda: True)
    watching = asyncio.create_task(waits.watch())
    with waits.on("the commit of partition 3", 60.0):
        await clock.advance(9.0)
        assert not caplog.messages
        await clock.advance(50.0)
        assert caplog.messages == ["waiting for the commit of partition 3, for 60 s at most"]
        await clock.advance(1.0)
    with pytest.raises(AccidentError, match="the commit of partition 3 is not done after 60 s") as ended:
        await watching
    assert ended.value.accident is Accident.TIMED_OUT


async def test_a_wait_that_ends_in_time_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    clock = FakeClock()
    waits = Waits(clock, lambda: True)
    watching = asyncio.create_task(waits.watch())
    wait = waits.begin("an assignment", 60.0)
    await clock.advance(59.0)
    waits.end(wait)
    waits.end(wait)
    waits.end(None)
    await clock.advance(100.0)
    assert not watching.done()
    assert caplog.messages[1:] == ["an assignment: done after about 59 s"]
    await cancel_and_wait([watching])


async def test_time_in_which_the_cluster_does_not_answer_is_not_counted() -> None:
    clock, cluster = FakeClock(), Cluster()
    waits = Waits(clock, lambda: cluster.answers)
    watching = asyncio.create_task(waits.watch())
    waits.begin("the prices", 60.0)
    cluster.answers = False
    await clock.advance(600.0)
    cluster.answers = True
    await clock.advance(59.0)
    assert not watching.done()
    await clock.advance(1.0)
    assert isinstance(watching.exception(), AccidentError)
