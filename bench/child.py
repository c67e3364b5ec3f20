"""A process that is measured from outside: its CPU time, its memory, its log."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent

_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
_STOP_S: Final = 60
_LOG_LINES: Final = 40
_BAD_LEVELS: Final = ("[ERROR]", "[CRITICAL]")


class BenchError(RuntimeError):
    """A run that can't go on, or whose result would mean nothing; the message says why."""


class Child:
    """A running process of ours."""

    def __init__(self, process: "subprocess.Popen[bytes]", name: str, log: Path) -> None:
        self.name = name
        self.log = log
        self._process = process

    @property
    def cpu_s(self) -> float:
        """Seconds of CPU time so far, of all its threads, user and system."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S

    @property
    def rss_bytes(self) -> int:
        """Bytes of memory that it holds."""
        fields = Path(f"/proc/{self._process.pid}/statm").read_text(encoding="ascii").split()
        return int(fields[1]) * _PAGE_BYTES

    def check(self) -> None:
        """Raise `BenchError`, with its last words, where it has ended with a failure."""
        if self._process.poll():
            words = complaint(self.log.read_text(encoding="utf-8", errors="replace").splitlines())
            msg = "\n".join((f"{self.name} ended with code {self._process.returncode}; from {self.log}:", *words))
            raise BenchError(msg)

    @property
    def has_ended(self) -> bool:
        """Whether it is over, with success. Raises `BenchError`."""
        self.check()
        return self._process.poll() is not None

    def stop(self) -> None:
        """Ask it to end, wait, and insist."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()


def complaint(log: Sequence[str]) -> Sequence[str]:
    """Give the lines of a log that say what went wrong: from the first error on, or else the last ones."""
    for at, line in enumerate(log):
        if any(level in line for level in _BAD_LEVELS):
            return log[at : at + _LOG_LINES]
    return log[-_LOG_LINES:]


@contextmanager
def child(arguments: Sequence[str], name: str, log: Path, environment: Mapping[str, str]) -> Iterator[Child]:
    """Run this Python with `arguments`, `environment` added to ours, its output in `log`; stopped at the end."""
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, *arguments],
            cwd=ROOT,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,  # Ctrl-C is for us; what is measured is stopped by us
        )
    started = Child(process, name, log)
    try:
        yield started
    finally:
        started.stop()
