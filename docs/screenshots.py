# ruff: noqa: INP001 - a script, not part of a package
"""Take the README's screenshots: run `make demo` in one terminal and this script in another.

Writes docs/images/*.png. The argument is the address that the demo prints; the default is the worker's default.
"""

import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from sim import script  # noqa: E402 - the path above makes it importable
from tests.web.browser import Browser  # noqa: E402

IMAGES = ROOT / "docs" / "images"
DEFAULT_URL = "http://127.0.0.1:6066"
WIDTH = 1280
MAX_HEIGHT = 900


def main(base: str) -> int:
    """Take the screenshots. Returns the exit code."""
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium is None or driver is None:
        print("Chromium or its driver is missing: install chromium and chromium-driver", file=sys.stderr)  # noqa: T201
        return 1
    dead_org, _ = script.DEAD_NODE
    dry_org, instance = script.RUN_DRY
    credited_org, _ = script.CREDITED
    pages = {
        "fleet": "/",
        "org": f"/orgs/{dry_org}",
        "replica": f"/orgs/{dead_org}/replicas/{script.DEAD_REPLICA}",
        "instance": f"/orgs/{dry_org}/instances/{instance}",
        "usage": f"/orgs/{credited_org}/usage",
    }
    IMAGES.mkdir(exist_ok=True)
    with Browser(chromium, driver) as browser:
        for name, path in pages.items():
            browser.theme("light")
            browser.open(base + path)
            browser.shoot(IMAGES / f"{name}.png", WIDTH, MAX_HEIGHT)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1].rstrip("/") if len(sys.argv) > 1 else DEFAULT_URL))
