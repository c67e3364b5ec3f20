"""Install Chromium and its driver for the browser tests, or say what is missing."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parent.parent)

from tools.console import ToolError, say  # noqa: E402 - the path above makes it importable
from tools.packages import require  # noqa: E402

_PROGRAMS = (("chromium", "chromium"), ("chromedriver", "chromium-driver"))


def main() -> int:
    """Install what is missing. Returns 0 in any case: without a browser, the tests that need one are skipped."""
    for program, package in _PROGRAMS:
        try:
            require(program, package)
        except ToolError as error:
            say(f"{error}; the browser tests are skipped")
    return 0


if __name__ == "__main__":
    sys.exit(main())
