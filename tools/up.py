"""Run a command with local services: `python tools/up.py [--keep] [kafka] [redis] -- COMMAND …`.

The command gets their addresses in its environment. When it exits, the services that were started for it are stopped,
unless --keep is given; services that were already running are not. The exit code is the command's.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

sys.path[0] = str(Path(__file__).resolve().parent.parent)

from tools.console import ToolError, say  # noqa: E402 - the path above makes it importable
from tools.services import KAFKA, REDIS  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import FrameType

_SERVICES = {service.name: service for service in (KAFKA, REDIS)}


class _Signalled(Exception):
    """A signal arrived before the command was started."""


def _end(number: int, _frame: FrameType | None) -> None:
    raise _Signalled(number)


def _run(command: Sequence[str], env: Mapping[str, str]) -> int:
    """Run the command and wait for its exit. SIGTERM is forwarded to it; the terminal sends it Ctrl-C directly."""
    process = subprocess.Popen(command, env=env)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda number, _frame: process.send_signal(number))
    code = process.wait()
    return code if code >= 0 else 128 - code


def main(arguments: Sequence[str]) -> int:
    """Run the command. Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", action="store_true", help="leave the services running")
    parser.add_argument("services", nargs="*", choices=tuple(_SERVICES))
    split = arguments.index("--") if "--" in arguments else len(arguments)
    options = parser.parse_args(arguments[:split])
    if not arguments[split + 1 :]:
        parser.error("give the command to run after --")
    signal.signal(signal.SIGTERM, _end)
    signal.signal(signal.SIGINT, _end)
    env = dict(os.environ)
    started = []
    try:
        for name in options.services:
            service = _SERVICES[name]
            endpoint = service.start()
            env[service.setting] = endpoint.address
            if endpoint.started:
                started.append(service)
        return _run(arguments[split + 1 :], env)
    except ToolError as error:
        say(f"error: {error}")
        return 1
    except _Signalled as signalled:
        return 128 + int(signalled.args[0])
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if not options.keep:
            for service in reversed(started):
                service.stop()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
