"""Redis as a plain process. It holds only a read model, which the workers fill again, so nothing is saved."""

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
        """Tell whether a Redis answers PING."""
        return exchange(port, b"PING\r\n", 7) == b"+PONG\r\n"

    @classmethod
    def fetch(cls) -> None:
        """Find Redis, or install it."""
        _program()

    def prepare(self) -> Sequence[str]:
        """Build the command; there is no data to lay out."""
        listen = ["--bind", LOOPBACK, "--port", str(self.port), "--dir", str(self.folder)]
        return [_program(), *listen, "--save", "", "--appendonly", "no", "--daemonize", "no"]


def _program() -> str:
    found = shutil.which(_PROGRAM)
    if found is not None:
        return found
    program = require(_PROGRAM, _PROGRAM)
    if Path("/run/systemd/system").exists():
        # Debian's package starts a service on the port we want; the install was ours, so that service is not wanted.
        subprocess.run(["systemctl", "disable", "--now", _PROGRAM], check=False, capture_output=True)
    return program
