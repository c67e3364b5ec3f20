"""Programs from the operating system: found, or installed where that is ours to do, or named in one clear line."""

from __future__ import annotations

import os
import shutil

from tools.console import STATE, ToolError, run

_APT_ENV = {"DEBIAN_FRONTEND": "noninteractive"}


def can_install() -> bool:
    """Tell whether this is Debian or a relative of it, and we are root."""
    return hasattr(os, "geteuid") and os.geteuid() == 0 and shutil.which("apt-get") is not None


def install(*packages: str) -> None:
    """Install Debian packages; `ToolError` when apt-get fails."""
    env = {**os.environ, **_APT_ENV}
    log = STATE / "apt-get.log"
    run(["apt-get", "-q", "update"], "apt-get update", log, env)
    command = ["apt-get", "-q", "install", "-y", "--no-install-recommends", *packages]
    run(command, f"apt-get install {' '.join(packages)}", log, env)


def require(program: str, *packages: str) -> str:
    """Path of a program; Debian `packages` bring it where it is missing and we may install, else `ToolError`."""
    found = shutil.which(program)
    if found is None and can_install():
        install(*packages)
        found = shutil.which(program)
    if found is None:
        message = f"{program} is missing: install it (on Debian or Ubuntu: sudo apt-get install {' '.join(packages)})"
        raise ToolError(message)
    return found
