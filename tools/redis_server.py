"""Redis as a process. Nothing is saved, since the workers rebuild the read model."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from tools.packages import require
from tools.server import LOOPBACK, Server, exchange

if TYPE_CHECKING:
    from collections.abc import Sequence

_PROGRAM = "redis-server"


class RedisServer(Server):
    """A Redis without persistence."""

    title: ClassVar[str] = "Redis"
    port_setting: ClassVar[str] = "OBOL_REDIS_PORT"
    address_setting: ClassVar[str] = "REDIS_URL"

    @classmethod
    def address(cls, port: int) -> str:
        """Return the URL of database 0."""
        return f"redis://{LOOPBACK}:{port}/0"

    @classmethod
    def answers(cls, port: int) -> bool:
        """Return whether a Redis answers PING."""
        return exchange(port, b"PING\r\n", 7) == b"+PONG\r\n"

    @classmethod
    def fetch(cls) -> None:
        """Install Redis if it is missing."""
        _program()

    def prepare(self) -> Sequence[str]:
        """Return the command."""
        listen = ["--bind", LOOPBACK, "--port", str(self.port), "--dir", str(self.folder)]
        return [_program(), *listen, "--save", "", "--appendonly", "no", "--daemonize", "no"]


def _program() -> str:
    found = shutil.which(_PROGRAM)
    if found is not None:
        return found
    program = require(_PROGRAM, _PROGRAM)
    if Path("/run/systemd/system").exists():
        # Debian's package also starts a service, on the same port.
        subprocess.run(["systemctl", "disable", "--now", _PROGRAM], check=False, capture_output=True)
    return program
