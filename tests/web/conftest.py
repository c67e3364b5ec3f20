"""A live fleet, a real browser, and axe-core. Only what is asked for is started."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.namespaces import fresh_namespace
from tests.web.browser import Browser
from tests.web.live import Live, add_hostile, add_money, add_stories
from tools.console import STATE

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).parent
_NPM_DEADLINE_S = 120


@pytest.fixture(scope="module")
def live(kafka_bootstrap: str, redis_url: str) -> Iterator[Live]:
    """One worker with rows of every kind; tests may add to them."""
    with (
        fresh_namespace(kafka_bootstrap, "web") as namespace,
        Live(kafka_bootstrap, namespace, REDIS_URL=redis_url) as live,
    ):
        live.wait_ready()
        add_stories(live)
        add_money(live)
        add_hostile(live)
        live.settle()
        yield live


@pytest.fixture(scope="module")
def browser(chromium: tuple[str, str]) -> Iterator[Browser]:
    """Chromium without a window."""
    with Browser(*chromium) as browser:
        yield browser


@pytest.fixture(scope="session")
def axe_source() -> str:
    """The script of axe-core, in the version that package-lock.json pins."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("no npm here to fetch axe-core with: install npm to have pages checked for accessibility")
    folder = STATE / "axe"
    script = folder / "node_modules" / "axe-core" / "axe.min.js"
    lock = (HERE / "package-lock.json").read_text(encoding="utf-8")
    installed = folder / "package-lock.json"
    if not script.exists() or installed.read_text(encoding="utf-8") != lock:
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("package.json", "package-lock.json"):
            shutil.copy(HERE / name, folder / name)
        command = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
        subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=_NPM_DEADLINE_S)
    return script.read_text(encoding="utf-8")
