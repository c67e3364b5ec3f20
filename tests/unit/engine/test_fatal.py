"""The exit code and the last log line of a process that is ended by its deadline."""

from __future__ import annotations

import subprocess
import sys

import pytest

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
