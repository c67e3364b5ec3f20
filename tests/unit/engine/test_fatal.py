"""The exit code and the last log line of a process that is ended by its deadline."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest

from streams.engine.fatal import guarded
from streams.engine.tasks import cancel_and_wait
from tests.unit.engine.fakes import process_end, process_ends

PROGRAM = """
import threading
from streams.engine.fatal import exit_within
exit_within(0.2, lambda: {committed})
threading.Event().wait()
"""


@pytest.mark.parametrize(
    ("committed", "code", "words"),
    [
        (True, 0, "stopped and committed, but still running after 0.2 s: exiting"),
        (False, 75, "wait timed out: the last commits were not done within 0.2 s of the stop; exit code 75"),
    ],
)
def test_a_shutdown_that_hangs_ends_after_its_deadline(committed: bool, code: int, words: str) -> None:  # noqa: FBT001 - a case
    program = PROGRAM.format(committed=committed)
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=False)
    assert ended.returncode == code
    assert words in ended.stderr


async def test_a_task_that_awaits_what_was_cancelled_does_not_end_without_a_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("streams.engine.fatal.end_process", process_ends)

    async def awaits_a_cancelled_one() -> None:
        other = asyncio.create_task(asyncio.sleep(60.0))
        await asyncio.sleep(0)
        other.cancel()
        await other

    with process_end() as ended:
        await guarded("watching", awaits_a_cancelled_one())
    assert str(ended[0].args[0]).startswith("watching: CancelledError")


async def test_a_task_that_is_cancelled_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streams.engine.fatal.end_process", process_ends)
    task = asyncio.create_task(guarded("watching", asyncio.sleep(60.0)))
    await asyncio.sleep(0)
    await cancel_and_wait([task])
    assert task.cancelled()
