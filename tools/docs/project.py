"""Version and description from `pyproject.toml`."""

import tomllib
from functools import lru_cache

from schemas.base import Json
from tools.console import ROOT


@lru_cache(maxsize=1)
def _project() -> Json:
    project: Json = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return project


def version() -> str:
    """Return the version."""
    return str(_project()["version"])


DESCRIPTION = str(_project()["description"])
