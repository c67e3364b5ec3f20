"""An Obol worker as a child process, for the demo."""

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
    """The worker exited or did not become ready. The message has the last error of its log."""


class WorkerProcess:
    """A running worker with its views and its log."""

    def __init__(self, process: asyncio.subprocess.Process, port: int, log: Path) -> None:
        self.views = HttpViews(f"http://{HOST}:{port}")
        self.log = log
        self._process = process

    async def ready(self) -> None:
        """Wait until its partitions are restored. Raises `WorkerError` after `READY_DEADLINE_S`."""
        loop = asyncio.get_running_loop()
        end = loop.time() + READY_DEADLINE_S
        while not await asyncio.to_thread(self.views.ready):
            if loop.time() >= end:
                msg = f"the worker is not ready after {READY_DEADLINE_S:g} s{self._log_lines()}"
                raise WorkerError(msg)
            await asyncio.sleep(_POLL_S)

    async def wait_exit(self) -> None:
        """Wait until the process exits, then raise `WorkerError`."""
        code = await self._process.wait()
        msg = f"the worker exited with code {code}{self._log_lines()}"
        raise WorkerError(msg)

    async def stop(self) -> int:
        """Stop it with SIGTERM, and after `STOP_DEADLINE_S` with SIGKILL. Returns the exit code."""
        if self._process.returncode is None:
            self._process.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(STOP_DEADLINE_S):
                return await self._process.wait()
        except TimeoutError:
            self._process.kill()
            return await self._process.wait()

    def _log_lines(self) -> str:
        return "\n".join((f"; from {self.log}:", *error_lines(self.log.read_text(errors="replace"))))


@asynccontextmanager
async def worker(environment: Mapping[str, str], log: Path) -> AsyncIterator[WorkerProcess]:
    """Run a worker with `environment` added to ours and its output in `log`. It is stopped at the end."""
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
            # So that Ctrl-C reaches only us: we stop the worker once its views are no longer needed.
            start_new_session=True,
        )
    child = WorkerProcess(process, port, log)
    try:
        yield child
    finally:
        await child.stop()


def error_lines(log: str) -> list[str]:
    """Return the lines of the last error in a log, or the last lines if there is no error."""
    lines = log.splitlines()
    errors = [n for n, line in enumerate(lines) if "[ERROR]" in line or "[CRITICAL]" in line]
    if not errors:
        return lines[-_LOG_LINES:]
    error = itertools.takewhile(lambda line: "[INFO]" not in line, lines[errors[-1] :])
    return list(error)[-_LOG_LINES:]


def _opened(log: Path) -> BinaryIO:
    log.parent.mkdir(parents=True, exist_ok=True)
    return log.open("wb")


def free_port() -> int:
    """Return the default port of the views, or the next free one."""
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
