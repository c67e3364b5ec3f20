"""A child process with its CPU time, memory and log."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from sim.worker import error_lines

ROOT: Final = Path(__file__).resolve().parent.parent

_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
_STOP_S: Final = 60


class BenchError(RuntimeError):
    """A run that failed, or whose result would be meaningless."""


class Child:
    """A child process."""

    def __init__(self, process: "subprocess.Popen[bytes]", name: str, log: Path) -> None:
        self.name = name
        self.log = log
        self._process = process

    @property
    def cpu_s(self) -> float:
        """CPU time so far in seconds, user and system, of all threads."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S

    @property
    def rss_bytes(self) -> int:
        """Resident memory in bytes."""
        fields = Path(f"/proc/{self._process.pid}/statm").read_text(encoding="ascii").split()
        return int(fields[1]) * _PAGE_BYTES

    @property
    def text(self) -> str:
        """Its log so far."""
        return self.log.read_text(encoding="utf-8", errors="replace")

    def check(self) -> None:
        """Raise `BenchError` with the last error of its log if it has failed."""
        if self._process.poll():
            lines = error_lines(self.text)
            msg = "\n".join((f"{self.name} exited with code {self._process.returncode}; from {self.log}:", *lines))
            raise BenchError(msg)

    @property
    def has_exited(self) -> bool:
        """Whether it has exited with success. Raises `BenchError` if it failed."""
        self.check()
        return self._process.poll() is not None

    def kill(self) -> None:
        """End it with SIGKILL."""
        self._process.kill()
        self._process.wait()

    def terminate(self) -> None:
        """Send SIGTERM, without waiting."""
        self._process.send_signal(signal.SIGTERM)

    def stop(self) -> None:
        """Stop it with SIGTERM, and after `_STOP_S` with SIGKILL."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()


class Children:
    """Several child processes that do one job."""

    def __init__(self, children: Sequence[Child]) -> None:
        self.children = children
        self.log = children[0].log

    @property
    def cpu_s(self) -> float:
        """CPU time so far in seconds, of all."""
        return sum(one.cpu_s for one in self.children)

    @property
    def rss_bytes(self) -> int:
        """Resident memory in bytes, of all."""
        return sum(one.rss_bytes for one in self.children)

    def check(self) -> None:
        """Raise `BenchError` if one has failed."""
        for one in self.children:
            one.check()


@contextmanager
def child(
    arguments: Sequence[str], name: str, log: Path, environment: Mapping[str, str], program: str = sys.executable
) -> Iterator[Child]:
    """Run `program` with `arguments`, with `environment` added to ours and output in `log`. Stopped at the end."""
    with log.open("wb") as out:
        process = subprocess.Popen(
            [program, *arguments],
            cwd=ROOT,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,  # so that Ctrl-C reaches only us, and we stop it
        )
    started = Child(process, name, log)
    try:
        yield started
    finally:
        started.stop()
