"""Official schemas from the npm registry, kept beside other downloads; none is a part of this project."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
import subprocess
import tarfile
from typing import Any

import pytest

from tools.console import STATE

_DEADLINE_S = 120


def official_schema(package: str, version: str, sha512: str, member: str) -> Any:
    """A JSON file of a package, whose archive has that SHA-512 (base64, as npm writes it).

    Skips for a person without npm or network; fails where nobody would notice a skip.
    """
    folder = STATE / "npm"
    archive = folder / f"{package.replace('@', '').replace('/', '-')}-{version}.tgz"
    if not archive.exists():
        _fetch(f"{package}@{version}", folder)
    found = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
    assert found == sha512, f"{archive} is another archive than was meant: remove it"
    with tarfile.open(archive) as files:
        content = files.extractfile(f"package/{member}")
        assert content is not None
        return json.load(content)


def _fetch(what: str, folder: Any) -> None:
    npm = shutil.which("npm")
    if npm is None:
        _unavailable("npm is not installed: it brings the official schema")
        return
    folder.mkdir(parents=True, exist_ok=True)
    command = [npm, "pack", "--silent", "--pack-destination", str(folder), what]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_DEADLINE_S, check=False)
    if done.returncode:
        _unavailable(f"npm can't bring {what}: {done.stderr.strip()[-300:]}")


def _unavailable(why: str) -> None:
    if os.environ.get("CI"):
        pytest.fail(why)
    pytest.skip(why)
