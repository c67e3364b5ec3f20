"""Programs from the operating system: find them, and install them where that is possible."""

from __future__ import annotations

import os
import shutil

from tools.console import STATE, ToolError, run

_APT_ENV = {"DEBIAN_FRONTEND": "noninteractive"}


def can_install() -> bool:
    """Return whether this is Debian or a derivative, and we are root."""
    return hasattr(os, "geteuid") and os.geteuid() == 0 and shutil.which("apt-get") is not None


def install(*packages: str) -> None:
    """Install Debian packages. Raises `ToolError` if apt-get fails."""
    env = {**os.environ, **_APT_ENV}
    log = STATE / "apt-get.log"
    run(["apt-get", "-q", "update"], "apt-get update", log, env)
    command = ["apt-get", "-q", "install", "-y", "--no-install-recommends", *packages]
    run(command, f"apt-get install {' '.join(packages)}", log, env)


def require(program: str, *packages: str) -> str:
    """Return the path of a program, installing the Debian `packages` if it is missing. Raises `ToolError`."""
    found = shutil.which(program)
    if found is None and can_install():
        install(*packages)
        found = shutil.which(program)
    if found is None:
        message = f"{program} is missing: install it (on Debian or Ubuntu: sudo apt-get install {' '.join(packages)})"
        raise ToolError(message)
    return found
