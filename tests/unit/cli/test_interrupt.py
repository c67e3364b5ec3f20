"""Ctrl-C ends a command, whatever the libraries under it make of it."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from textwrap import dedent

import pytest

from streams.cli.failure import EXIT_INTERRUPTED
from streams.cli.interrupt import run_until_interrupted
from tools.console import ROOT

DEADLINE_S = 60

LETS_GO = """
    try:
        await asyncio.Event().wait()
    finally:
        print("let go", flush=True)
"""
LOSES_IT = """
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            print("lost", flush=True)
"""
NEVER_LETS_GO = """
    try:
        await asyncio.Event().wait()
    finally:
        print("letting go", flush=True)
        await asyncio.Event().wait()
"""


def command(body: str, leave_within_s: float) -> subprocess.Popen[str]:
    """A process that carries out `body`, and has said that it has begun to."""
    program = dedent(f"""
        import asyncio, sys
        from streams.cli import interrupt

        interrupt.LEAVE_WITHIN_S = {leave_within_s}

        async def work():
            print("at work", flush=True)
        {{body}}

        try:
            interrupt.run_until_interrupted(work())
        except KeyboardInterrupt:
            sys.exit({EXIT_INTERRUPTED})
    """).replace("{body}", body)
    process = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "at work\n"
    return process


def said(process: subprocess.Popen[str]) -> str:
    """What it said until its end, which Ctrl-C has brought about."""
    out, _ = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == EXIT_INTERRUPTED
    return out


def test_what_is_interrupted_lets_go() -> None:
    process = command(LETS_GO, leave_within_s=DEADLINE_S)
    process.send_signal(signal.SIGINT)
    assert said(process) == "let go\n"


@pytest.mark.parametrize(("body", "says"), [(LOSES_IT, "lost\n"), (NEVER_LETS_GO, "letting go\n")])
def test_what_does_not_end_is_left(body: str, says: str) -> None:
    process = command(body, leave_within_s=0.1)
    process.send_signal(signal.SIGINT)
    assert said(process) == says


def test_a_second_time_it_is_left_at_once() -> None:
    process = command(NEVER_LETS_GO, leave_within_s=DEADLINE_S)
    process.send_signal(signal.SIGINT)
    assert process.stdout is not None
    assert process.stdout.readline() == "letting go\n"
    process.send_signal(signal.SIGINT)
    assert said(process) == ""


def test_what_is_not_interrupted_gives_its_result() -> None:
    async def work() -> str:
        await asyncio.sleep(0)
        return "done"

    assert run_until_interrupted(work()) == "done"


async def test_it_works_in_another_thread_too() -> None:
    assert await asyncio.to_thread(run_until_interrupted, asyncio.sleep(0, "done")) == "done"


def test_a_cancellation_that_nobody_asked_for_stays_one() -> None:
    async def work() -> None:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        run_until_interrupted(work())
