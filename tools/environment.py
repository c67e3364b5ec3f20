"""Create or update .venv from requirements-dev.lock, with Obol's console scripts, unless it is up to date."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import venv
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parent.parent)

from tools.console import ROOT, STATE, ToolError, run, say  # noqa: E402 - the path above makes it importable

_VENV = ROOT / ".venv"
_PYTHON = _VENV / "bin" / "python"
_STAMP = _VENV / "installed.sha256"
_LOCK = ROOT / "requirements-dev.lock"
_LOG = STATE / "pip.log"


def _digest() -> str:
    """Return a digest of everything that determines what is installed."""
    contents = [_LOCK.read_bytes(), (ROOT / "pyproject.toml").read_bytes(), str(ROOT).encode()]
    return hashlib.sha256(b"\0".join(contents)).hexdigest()


def _works() -> bool:
    return _PYTHON.exists() and subprocess.run([_PYTHON, "-c", "import pip"], check=False).returncode == 0


def main() -> int:
    """Update the environment. Returns the exit code."""
    digest = _digest()
    if _works() and _STAMP.exists() and _STAMP.read_text(encoding="ascii") == digest:
        return 0
    try:
        if not _works():
            say(f"creating .venv with Python {sys.version.split()[0]}")
            shutil.rmtree(_VENV, ignore_errors=True)
            venv.create(_VENV, with_pip=True)
        pip = [str(_PYTHON), "-m", "pip", "install", "--disable-pip-version-check", "--no-input"]
        run([*pip, "--require-hashes", "-r", str(_LOCK)], "installing the locked dependencies", _LOG)
        run([*pip, "--no-deps", "--no-build-isolation", "-e", str(ROOT)], "installing obol's commands", _LOG)
    except ToolError as error:
        say(f"error: {error}")
        return 1
    _STAMP.write_text(digest, encoding="ascii")
    return 0


if __name__ == "__main__":
    sys.exit(main())
