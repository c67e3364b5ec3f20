"""Progress on stderr, and running long commands. Stdout is for values."""

from __future__ import annotations

import subprocess
import sys
import time
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

ROOT = Path(__file__).resolve().parent.parent
STATE = ROOT / ".obol"

_POLL_S = 0.1
_LINE_EVERY_S = 10
_TAIL_LINES = 15


class ToolError(Exception):
    """An error that the user has to fix. The message is one line: the error and the fix."""


def say(text: str) -> None:
    """Print one line of progress."""
    print(text, file=sys.stderr, flush=True)


class Progress:
    """Shows the elapsed seconds after a label: in place on a terminal, otherwise as a line every 10 s."""

    def __init__(self, label: str) -> None:
        """Start the time. `label`: what is being waited for."""
        self._label = label
        self._started = time.monotonic()
        self._shown_s = 0

    @property
    def elapsed_s(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._started

    def tick(self) -> None:
        """Show the elapsed time if the next output is due."""
        elapsed_s = int(self.elapsed_s)
        if sys.stderr.isatty():
            if elapsed_s > self._shown_s:
                print(f"\r{self._label} … {elapsed_s} s", end="", file=sys.stderr, flush=True)
                self._shown_s = elapsed_s
        elif elapsed_s >= self._shown_s + _LINE_EVERY_S:
            say(f"{self._label} … {elapsed_s} s")
            self._shown_s = elapsed_s

    def done(self, outcome: str = "done") -> None:
        """Print the closing line."""
        start = "\r\x1b[K" if sys.stderr.isatty() else ""
        say(f"{start}{self._label}: {outcome} ({self.elapsed_s:.1f} s)")


def wait_until(condition: Callable[[], bool], label: str, deadline_s: float) -> bool:
    """Wait for `condition` and show progress. Returns False after `deadline_s`."""
    progress = Progress(label)
    try:
        while not condition():
            if progress.elapsed_s > deadline_s:
                progress.done("timed out")
                return False
            time.sleep(_POLL_S)
            progress.tick()
    except BaseException:
        progress.done("failed")
        raise
    progress.done()
    return True


def tail(log: Path) -> str:
    """Return the last lines of a log, indented; empty if the log does not exist."""
    if not log.exists():
        return ""
    with log.open(encoding="utf-8", errors="replace") as lines:
        return "".join(f"  {line}" for line in deque(lines, _TAIL_LINES))


def run(command: Sequence[str], label: str, log: Path, env: Mapping[str, str] | None = None) -> None:
    """Run a command with its output in `log`. If it fails, prints the log's last lines and raises `ToolError`."""
    log.parent.mkdir(parents=True, exist_ok=True)
    progress = Progress(label)
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=env)
        try:
            while process.poll() is None:
                time.sleep(_POLL_S)
                progress.tick()
        except BaseException:
            process.terminate()
            process.wait()
            raise
    if process.returncode:
        progress.done("failed")
        say(tail(log).rstrip())
        message = f"{' '.join(command[:2])} … failed with exit code {process.returncode}; output: {log}"
        raise ToolError(message)
    progress.done()
