"""Ctrl-C ends a command, even if a library swallows the cancellation."""

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

CLEANS_UP = """
    try:
        await asyncio.Event().wait()
    finally:
        print("cleaned up", flush=True)
"""
SWALLOWS_CANCELLATION = """
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            print("swallowed", flush=True)
"""
NEVER_RETURNS = """
    try:
        await asyncio.Event().wait()
    finally:
        print("cleaning up", flush=True)
        await asyncio.Event().wait()
"""


def command(body: str, cancel_timeout_s: float) -> subprocess.Popen[str]:
    """Start a process that runs `body`, and wait until it has started."""
    program = dedent(f"""
        import asyncio, sys
        from streams.cli import interrupt

        interrupt.CANCEL_TIMEOUT_S = {cancel_timeout_s}

        async def work():
            print("started", flush=True)
        {{body}}

        try:
            interrupt.run_until_interrupted(work())
        except KeyboardInterrupt:
            sys.exit({EXIT_INTERRUPTED})
    """).replace("{body}", body)
    process = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "started\n"
    return process


def remaining_output(process: subprocess.Popen[str]) -> str:
    """Return the rest of stdout, and check that the process exits as interrupted."""
    out, _ = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == EXIT_INTERRUPTED
    return out


def test_ctrl_c_cancels_the_command() -> None:
    process = command(CLEANS_UP, cancel_timeout_s=DEADLINE_S)
    process.send_signal(signal.SIGINT)
    assert remaining_output(process) == "cleaned up\n"


@pytest.mark.parametrize(("body", "output"), [(SWALLOWS_CANCELLATION, "swallowed\n"), (NEVER_RETURNS, "cleaning up\n")])
def test_the_process_exits_after_the_timeout(body: str, output: str) -> None:
    process = command(body, cancel_timeout_s=0.1)
    process.send_signal(signal.SIGINT)
    assert remaining_output(process) == output


def test_a_second_ctrl_c_exits_at_once() -> None:
    process = command(NEVER_RETURNS, cancel_timeout_s=DEADLINE_S)
    process.send_signal(signal.SIGINT)
    assert process.stdout is not None
    assert process.stdout.readline() == "cleaning up\n"
    process.send_signal(signal.SIGINT)
    assert remaining_output(process) == ""


def test_an_uninterrupted_command_returns_its_result() -> None:
    async def work() -> str:
        await asyncio.sleep(0)
        return "done"

    assert run_until_interrupted(work()) == "done"


async def test_it_works_in_another_thread_too() -> None:
    assert await asyncio.to_thread(run_until_interrupted, asyncio.sleep(0, "done")) == "done"


def test_another_cancellation_is_not_an_interrupt() -> None:
    async def work() -> None:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        run_until_interrupted(work())
