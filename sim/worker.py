"""A worker of Obol as a child process, for the demo."""

import asyncio
import itertools
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import BinaryIO, Final

from sim.views import HttpViews

ROOT: Final = Path(__file__).resolve().parent.parent
HOST: Final = "127.0.0.1"
PORTS: Final = range(6066, 6166)
READY_DEADLINE_S: Final = 120.0
STOP_DEADLINE_S: Final = 30.0

_POLL_S: Final = 0.2
_LOG_LINES: Final = 15


class WorkerError(RuntimeError):
    """The worker ended by itself or did not become ready; the message has its last words."""


class Worker:
    """A running worker, its views, and its log."""

    def __init__(self, process: asyncio.subprocess.Process, port: int, log: Path) -> None:
        self.views = HttpViews(f"http://{HOST}:{port}")
        self.log = log
        self._process = process

    async def ready(self) -> None:
        """Wait until its partitions have their rows. Raises WorkerError when it takes too long."""
        loop = asyncio.get_running_loop()
        end = loop.time() + READY_DEADLINE_S
        while not await asyncio.to_thread(self.views.ready):
            if loop.time() >= end:
                msg = f"the worker is not ready after {READY_DEADLINE_S:g} s{self._last_words()}"
                raise WorkerError(msg)
            await asyncio.sleep(_POLL_S)

    async def died(self) -> None:
        """Wait for as long as it lives, then raise WorkerError."""
        code = await self._process.wait()
        msg = f"the worker ended with code {code}{self._last_words()}"
        raise WorkerError(msg)

    async def stop(self) -> int:
        """Ask it to stop, as Ctrl-C does, and wait; kill it when it does not. Its exit code."""
        if self._process.returncode is None:
            self._process.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(STOP_DEADLINE_S):
                return await self._process.wait()
        except TimeoutError:
            self._process.kill()
            return await self._process.wait()

    def _last_words(self) -> str:
        return "\n".join((f"; from {self.log}:", *last_words(self.log.read_text(errors="replace"))))


@asynccontextmanager
async def worker(environment: Mapping[str, str], log: Path) -> AsyncIterator[Worker]:
    """Start a worker with `environment` added to ours, its output in `log`; stopped at the end."""
    port = free_port()
    with _opened(log) as out:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "faust", "-A", "streams.app", "worker", "--loglevel=info"),
            env={**os.environ, **environment, "OBOL_HTTP_HOST": HOST, "OBOL_HTTP_PORT": str(port)},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            cwd=ROOT,
            # Ctrl-C is for us; the worker is stopped by us, when its views are no longer needed.
            start_new_session=True,
        )
    child = Worker(process, port, log)
    try:
        yield child
    finally:
        await child.stop()


def last_words(log: str) -> list[str]:
    """Give the lines that tell why a worker ended: its last error's, else the last ones."""
    lines = log.splitlines()
    errors = [n for n, line in enumerate(lines) if "[ERROR]" in line or "[CRITICAL]" in line]
    if not errors:
        return lines[-_LOG_LINES:]
    told = itertools.takewhile(lambda line: "[INFO]" not in line, lines[errors[-1] :])
    return list(told)[-_LOG_LINES:]


def _opened(log: Path) -> BinaryIO:
    log.parent.mkdir(parents=True, exist_ok=True)
    return log.open("wb")


def free_port() -> int:
    """Choose the views' usual port, or the first above it that nobody has."""
    for port in PORTS:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
            return port
    msg = f"no free port on {HOST} from {PORTS[0]} to {PORTS[-1]}"
    raise OSError(msg)
