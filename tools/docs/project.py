"""What the project says of itself."""

import tomllib
from functools import lru_cache
from typing import Any

from tools.console import ROOT


@lru_cache(maxsize=1)
def _project() -> dict[str, Any]:
    project: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return project


def version() -> str:
    """The version that `pyproject.toml` declares."""
    return str(_project()["version"])


DESCRIPTION = str(_project()["description"])
