"""Run a command with services beside it: `python tools/up.py [--keep] [kafka] [redis] -- COMMAND …`.

The command finds their addresses in its environment. When it ends, by itself or by Ctrl-C, the services that were
started for it are stopped; those that ran before are left alone, and with --keep all are. The exit code is the
command's.
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


class _Ended(Exception):
    """A signal asked us to end before the command ran."""


def _end(number: int, _frame: FrameType | None) -> None:
    raise _Ended(number)


def _run(command: Sequence[str], env: Mapping[str, str]) -> int:
    """Run the command to its own end; the terminal sends it Ctrl-C itself, SIGTERM is handed on."""
    process = subprocess.Popen(command, env=env)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda number, _frame: process.send_signal(number))
    code = process.wait()
    return code if code >= 0 else 128 - code


def main(arguments: Sequence[str]) -> int:
    """Carry it out; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", action="store_true", help="leave the services running")
    parser.add_argument("services", nargs="*", choices=tuple(_SERVICES))
    split = arguments.index("--") if "--" in arguments else len(arguments)
    options = parser.parse_args(arguments[:split])
    if not arguments[split + 1 :]:
        parser.error("name the command to run behind --")
    signal.signal(signal.SIGTERM, _end)
    signal.signal(signal.SIGINT, _end)
    env = dict(os.environ)
    started = []
    try:
        for name in options.services:
            service = _SERVICES[name]
            place = service.start()
            env[service.setting] = place.address
            if place.started:
                started.append(service)
        return _run(arguments[split + 1 :], env)
    except ToolError as error:
        say(f"error: {error}")
        return 1
    except _Ended as ended:
        return 128 + int(ended.args[0])
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if not options.keep:
            for service in reversed(started):
                service.stop()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
