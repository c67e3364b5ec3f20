"""Chromium by its driver: pages are opened, read, and checked for accessibility."""

from __future__ import annotations

import shutil
import tempfile
from base64 import b64decode
from typing import TYPE_CHECKING, Any, Self

from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By

from tools.server import free_ports

if TYPE_CHECKING:
    from pathlib import Path

FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--window-size=1280,900",
)
_DEADLINE_S = 30


class Browser:
    """A browser with a profile of its own, which goes with it."""

    def __init__(self, chromium: str, chromedriver: str, scale: int = 1) -> None:
        self._profile = tempfile.mkdtemp(prefix="obol-chromium-")
        options = Options()
        options.binary_location = chromium
        for flag in (*FLAGS, f"--user-data-dir={self._profile}", f"--force-device-scale-factor={scale}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=Service(chromedriver, port=free_ports()))
        self.driver.set_page_load_timeout(_DEADLINE_S)
        self.driver.set_script_timeout(_DEADLINE_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.driver.quit()
        shutil.rmtree(self._profile, ignore_errors=True)

    def theme(self, name: str) -> None:
        """`light` or `dark`, as the system would say."""
        features = [{"name": "prefers-color-scheme", "value": name}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def without_scripts(self, *, off: bool) -> None:
        """Whether pages run scripts."""
        self.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": off})

    def open(self, url: str) -> None:
        """Open a page, forgetting what the last one said on the console."""
        self.console()
        self.driver.get(url)

    def console(self) -> list[str]:
        """What was said on the console since the last time."""
        return [entry["message"] for entry in self.driver.get_log("browser")]  # type: ignore[no-untyped-call]

    def texts(self, selector: str) -> list[str]:
        """The visible texts of all elements that a CSS selector finds."""
        return [element.text for element in self.driver.find_elements(By.CSS_SELECTOR, selector)]

    def attributes(self, selector: str, *names: str) -> list[tuple[Any, ...]]:
        """Attributes of all elements that a CSS selector finds."""
        found = self.driver.find_elements(By.CSS_SELECTOR, selector)
        return [tuple(element.get_dom_attribute(name) for name in names) for element in found]

    def run(self, script: str, *arguments: Any) -> Any:
        """What a script returns."""
        return self.driver.execute_script(script, *arguments)

    def faults(self, axe_source: str) -> list[str]:
        """What axe-core finds serious or critical on the page: rule, help, and where."""
        # The page's own policy lets no foreign script in; the driver may run one.
        self.driver.execute_script(axe_source)
        found = self.driver.execute_async_script("axe.run().then(arguments[0])")
        return [
            f"{one['id']}: {one['help']}: {[node['html'][:160] for node in one['nodes'][:3]]}"
            for one in found["violations"]
            if one["impact"] in {"serious", "critical"}
        ]

    def shoot(self, path: Path, width: int = 1280, most_height: int = 1600) -> None:
        """A picture of the whole page, up to `most_height`."""
        self.driver.set_window_size(width, most_height)
        height = min(self.run("return document.documentElement.scrollHeight"), most_height)
        clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
        # A window is smaller inside than outside, so a screenshot of the window would cut off the page's end.
        taken = self.driver.execute_cdp_cmd("Page.captureScreenshot", {"clip": clip, "captureBeyondViewport": True})
        path.write_bytes(b64decode(taken["data"]))
