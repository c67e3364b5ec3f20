# ruff: noqa: INP001 - a script, no part of a package
"""Pictures of the four main pages for the README: `make demo` in one terminal, this script in another.

It writes docs/images/*.png. Takes the address that the demo prints; its default is the worker's default.
"""

import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from sim import cast  # noqa: E402 - the path above makes it importable
from tests.web.browser import Browser  # noqa: E402

IMAGES = ROOT / "docs" / "images"
DEFAULT_URL = "http://127.0.0.1:6066"
WIDTH = 1280
MOST_HEIGHT = 900


def main(base: str) -> int:
    """Take the pictures; 1 where there is no browser."""
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium is None or driver is None:
        print("no Chromium with its driver here: install chromium and chromium-driver", file=sys.stderr)  # noqa: T201
        return 1
    dead_org, _ = cast.DEAD_NODE
    dry_org, instance = cast.RUN_DRY
    pages = {
        "fleet": "/",
        "org": f"/orgs/{dry_org}",
        "replica": f"/orgs/{dead_org}/replicas/{cast.DEAD_REPLICA}",
        "instance": f"/orgs/{dry_org}/instances/{instance}",
    }
    IMAGES.mkdir(exist_ok=True)
    with Browser(chromium, driver) as browser:
        for name, path in pages.items():
            browser.theme("light")
            browser.open(base + path)
            browser.shoot(IMAGES / f"{name}.png", WIDTH, MOST_HEIGHT)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1].rstrip("/") if len(sys.argv) > 1 else DEFAULT_URL))
