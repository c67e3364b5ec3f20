"""A server of ours as a background process: one folder holds its data, its log and the record of who runs it.

A second start finds the first; a record left by a process that is gone is cleared; a port that something else holds is
explained. Two starts at once are serialised by a lock on the folder.
"""

from __future__ import annotations

import fcntl
import itertools
import json
import os
import random
import shutil
import signal
import socket
import subprocess
from abc import ABC, abstractmethod
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from tools.console import ToolError, say, tail, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

LOOPBACK = "127.0.0.1"

_START_DEADLINE_S = 60
_STOP_DEADLINE_S = 30
_CONNECT_TIMEOUT_S = 1

_LISTENING_PORTS = range(20_000, 32_768)
"""Above those of well-known servers, below those that Linux, macOS and Windows give to outgoing connections."""

# Each process begins elsewhere, so two at a time hardly meet.
_listening_ports = itertools.islice(
    itertools.cycle(_LISTENING_PORTS),
    random.randrange(len(_LISTENING_PORTS)),  # noqa: S311 - nothing secret
    None,
)


@dataclass(frozen=True)
class Running:
    """A process as its record has it; `born` tells it from a later process with the same pid."""

    pid: int
    born: str
    port: int


def birth_of(pid: int) -> str | None:
    """When a process started, as the system writes it; none when there is no such process (a zombie counts as none)."""
    if Path("/proc/self/stat").exists():
        try:
            fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
        except OSError:
            return None
        return None if fields[0] == "Z" else fields[19]
    answer = subprocess.run(["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return answer.stdout.strip() or None


def connects(port: int) -> bool:
    """Tell whether something listens on a loopback port."""
    with closing(socket.socket()) as probe:
        probe.settimeout(_CONNECT_TIMEOUT_S)
        return probe.connect_ex((LOOPBACK, port)) == 0


def free_ports(count: int = 1) -> int:
    """First of `count` neighbouring loopback ports that nothing holds; a process gets none of them twice.

    The system's own choice, port 0, is one that an outgoing connection may have by the time a server wants it.
    """
    while True:
        ports = [next(_listening_ports) for _ in range(count)]
        if ports == list(range(ports[0], ports[0] + count)) and all(_can_listen(port) for port in ports):
            return ports[0]


def _can_listen(port: int) -> bool:
    with closing(socket.socket()) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do: a port just left is free
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def exchange(port: int, request: bytes, answer_bytes: int) -> bytes:
    """Send a request to a loopback port; the answer's first bytes, empty when there is none."""
    try:
        with socket.create_connection((LOOPBACK, port), timeout=_CONNECT_TIMEOUT_S) as connection:
            connection.sendall(request)
            return connection.recv(answer_bytes)
    except OSError:
        return b""


class Server(ABC):
    """A background process of one kind in one folder. `port` is where a new one listens."""

    title: ClassVar[str]
    port_setting: ClassVar[str]
    address_setting: ClassVar[str]
    neighbouring_ports: ClassVar[int] = 1

    def __init__(self, folder: Path, port: int) -> None:
        """Nothing is started or touched yet."""
        self.folder = folder
        self.port = port
        self._record = folder / "process.json"
        self._log = folder / "server.log"
        self._process: subprocess.Popen[bytes] | None = None

    @classmethod
    @abstractmethod
    def address(cls, port: int) -> str:
        """Value of the address setting for a server on `port`."""

    @classmethod
    @abstractmethod
    def answers(cls, port: int) -> bool:
        """Tell whether a server of this kind, ready for work, answers on `port`."""

    @classmethod
    @abstractmethod
    def fetch(cls) -> None:
        """Find the programs that a start needs, or install them; `ToolError` when one can't be had."""

    @abstractmethod
    def prepare(self) -> Sequence[str]:
        """Get the program and its data folder ready; the command that runs it in the foreground."""

    def running(self) -> Running | None:
        """Return the process that the folder's record names, while it lives."""
        try:
            running = Running(**json.loads(self._record.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return None
        except (ValueError, TypeError):
            say(f"{self.title}: {self._record} is not readable as a record, so it is ignored")
            return None
        return running if birth_of(running.pid) == running.born else None

    def start(self) -> bool:
        """Start the server and wait until it answers; false when it ran already (`port` is then that one's)."""
        with self._locked():
            running = self.running()
            if running is not None:
                self.port = running.port
                self._await_answer(running)
                return False
            if self._record.exists():
                say(f"{self.title}: the process recorded last is gone without a word; starting a new one")
                self._record.unlink()
            self._refuse_taken_ports()
            command = self.prepare()
            with self._log.open("wb") as log:
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd=self.folder,
                    start_new_session=True,  # Ctrl-C belongs to the command in front, which stops us in its own time
                )
            started = Running(self._process.pid, birth_of(self._process.pid) or "", self.port)
            self._record.write_text(json.dumps(asdict(started)), encoding="utf-8")
            try:
                self._await_answer(started)
            except BaseException:
                self._end(started)
                raise
            return True

    def stop(self) -> bool:
        """End the process and wait until it is gone; false when none of ours ran."""
        if not self.folder.exists():
            return False
        with self._locked():
            running = self.running()
            if running is None:
                self._record.unlink(missing_ok=True)
                return False
            self._end(running)
            return True

    def remove(self) -> None:
        """Stop the server and delete its folder."""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _refuse_taken_ports(self) -> None:
        for port in range(self.port, self.port + self.neighbouring_ports):
            if not connects(port):
                continue
            other = port + 100
            mend = f"choose another with {self.port_setting}={other}"
            if self.answers(port):
                what = f"a {self.title} that this checkout did not start"
                mend = f"use that one with {self.address_setting}={self.address(port)}, or {mend}"
            else:
                what = "another program"
            message = f"{self.title}: port {port} of {LOOPBACK} is held by {what}; {mend}"
            raise ToolError(message)

    def _await_answer(self, running: Running) -> None:
        if self.answers(running.port):
            return

        def ready() -> bool:
            if self._gone(running):
                message = f"{self.title} (pid {running.pid}) ended at once"
                raise ToolError(message)
            return self.answers(running.port)

        try:
            if wait_until(ready, f"{self.title} on port {running.port}", _START_DEADLINE_S):
                return
        except ToolError as error:
            reason = str(error)
        else:
            reason = f"{self.title} (pid {running.pid}) does not answer after {_START_DEADLINE_S} s"
        say(tail(self._log).rstrip())
        message = f"{reason}; its log: {self._log}; to start with an empty one, delete {self.folder}"
        raise ToolError(message)

    def _end(self, running: Running) -> None:
        def gone() -> bool:
            return self._gone(running)

        if not gone():
            os.kill(running.pid, signal.SIGTERM)
            if not wait_until(gone, f"{self.title} (pid {running.pid}) stopping", _STOP_DEADLINE_S):
                os.kill(running.pid, signal.SIGKILL)
                wait_until(gone, f"{self.title} (pid {running.pid}) killed", _STOP_DEADLINE_S)
        self._record.unlink(missing_ok=True)

    def _gone(self, running: Running) -> bool:
        if self._process is not None and self._process.pid == running.pid:
            return self._process.poll() is not None  # collects our own child, which would stay a zombie else
        return birth_of(running.pid) != running.born
