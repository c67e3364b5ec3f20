"""A local server as a background process. One folder has its data, its log and `process.json`, which names the process.

Starting it again finds the running process. A `process.json` of a process that no longer exists is deleted. A lock on
the folder serialises concurrent starts.
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
"""Above the ports of well-known servers, below those that Linux, macOS and Windows use for outgoing connections."""

# A random start makes it unlikely that two processes try the same ports.
_listening_ports = itertools.islice(
    itertools.cycle(_LISTENING_PORTS),
    random.randrange(len(_LISTENING_PORTS)),  # noqa: S311 - not secret
    None,
)


@dataclass(frozen=True)
class Running:
    """A process as in `process.json`. `born` distinguishes it from a later process with the same pid."""

    pid: int
    born: str
    port: int


def birth_of(pid: int) -> str | None:
    """Return the start time of a process as the system writes it; None if it does not exist or is a zombie."""
    if Path("/proc/self/stat").exists():
        try:
            fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
        except OSError:
            return None
        return None if fields[0] == "Z" else fields[19]
    completed = subprocess.run(["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return completed.stdout.strip() or None


def connects(port: int) -> bool:
    """Return whether something listens on a loopback port."""
    with closing(socket.socket()) as probe:
        probe.settimeout(_CONNECT_TIMEOUT_S)
        return probe.connect_ex((LOOPBACK, port)) == 0


def free_ports(count: int = 1) -> int:
    """Return the first of `count` consecutive free loopback ports. No port is returned twice in a process.

    Port 0 would not do: an outgoing connection may take the port that the system chose before the server starts.
    """
    while True:
        ports = [next(_listening_ports) for _ in range(count)]
        if ports == list(range(ports[0], ports[0] + count)) and all(_can_listen(port) for port in ports):
            return ports[0]


def _can_listen(port: int) -> bool:
    with closing(socket.socket()) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do, so that TIME_WAIT does not count
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def exchange(port: int, request: bytes, response_bytes: int) -> bytes:
    """Send a request to a loopback port. Returns the first bytes of the response, empty if there is none."""
    try:
        with socket.create_connection((LOOPBACK, port), timeout=_CONNECT_TIMEOUT_S) as connection:
            connection.sendall(request)
            return connection.recv(response_bytes)
    except OSError:
        return b""


class Server(ABC):
    """A background process with its folder. `port`: where a new process listens."""

    title: ClassVar[str]
    port_setting: ClassVar[str]
    address_setting: ClassVar[str]
    neighbouring_ports: ClassVar[int] = 1

    def __init__(self, folder: Path, port: int) -> None:
        """Start nothing yet."""
        self.folder = folder
        self.port = port
        self._record = folder / "process.json"
        self._log = folder / "server.log"
        self._process: subprocess.Popen[bytes] | None = None

    @classmethod
    @abstractmethod
    def address(cls, port: int) -> str:
        """Return the value of the address setting for a server on `port`."""

    @classmethod
    @abstractmethod
    def answers(cls, port: int) -> bool:
        """Return whether a ready server of this kind answers on `port`."""

    @classmethod
    @abstractmethod
    def fetch(cls) -> None:
        """Install the programs that a start needs if they are missing. Raises `ToolError`."""

    @abstractmethod
    def prepare(self) -> Sequence[str]:
        """Prepare the program and its data folder. Returns the command that runs it in the foreground."""

    def running(self) -> Running | None:
        """Return the process named in `process.json` if it exists."""
        try:
            running = Running(**json.loads(self._record.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return None
        except (ValueError, TypeError):
            say(f"{self.title}: {self._record} is invalid and ignored")
            return None
        return running if birth_of(running.pid) == running.born else None

    def start(self) -> bool:
        """Start the server and wait until it answers. Returns False, and sets `port`, if it was already running."""
        with self._locked():
            running = self.running()
            if running is not None:
                self.port = running.port
                self._wait_until_ready(running)
                return False
            if self._record.exists():
                say(f"{self.title}: the previous process no longer exists; starting a new one")
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
                    start_new_session=True,  # so that Ctrl-C reaches only the foreground command, which then stops us
                )
            started = Running(self._process.pid, birth_of(self._process.pid) or "", self.port)
            self._record.write_text(json.dumps(asdict(started)), encoding="utf-8")
            try:
                self._wait_until_ready(started)
            except BaseException:
                self._end(started)
                raise
            return True

    def stop(self) -> bool:
        """Stop the process and wait for its end. Returns False if it was not running."""
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
            fix = f"choose another port with {self.port_setting}={other}"
            if self.answers(port):
                what = f"a {self.title} that this checkout did not start"
                fix = f"use it with {self.address_setting}={self.address(port)}, or {fix}"
            else:
                what = "another program"
            message = f"{self.title}: port {port} of {LOOPBACK} is in use by {what}; {fix}"
            raise ToolError(message)

    def _wait_until_ready(self, running: Running) -> None:
        if self.answers(running.port):
            return

        def ready() -> bool:
            if self._gone(running):
                message = f"{self.title} (pid {running.pid}) exited during its start"
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
        message = f"{reason}; its log: {self._log}; to start with an empty data folder, delete {self.folder}"
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
            return self._process.poll() is not None  # reaps our own child
        return birth_of(running.pid) != running.born
