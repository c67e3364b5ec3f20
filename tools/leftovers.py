"""Folders of test sessions, and stopping the servers that killed sessions left running."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

from tools.console import STATE
from tools.kafka_server import KafkaServer
from tools.redis_server import RedisServer
from tools.server import birth_of

if TYPE_CHECKING:
    from pathlib import Path

_SESSIONS = STATE / "tests"


def session_folder() -> Path:
    """Return the folder of this process's session. Its name identifies the process."""
    return _SESSIONS / f"{os.getpid()}-{birth_of(os.getpid())}"


def sweep() -> None:
    """Stop the servers of sessions whose process no longer exists, and delete their folders."""
    for session in _SESSIONS.glob("*-*"):
        pid, _, born = session.name.partition("-")
        if pid.isdecimal() and birth_of(int(pid)) == born:
            continue
        for kind in (KafkaServer, RedisServer):
            for record in session.glob("*/process.json"):
                kind(record.parent, 0).stop()
        shutil.rmtree(session, ignore_errors=True)


if __name__ == "__main__":
    sweep()
