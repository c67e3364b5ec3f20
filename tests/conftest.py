"""Fixtures for every layer. Only what is asked for is started."""

from __future__ import annotations

import os
import re
import shutil
from typing import TYPE_CHECKING

# Before anything of the engine is imported, here or in a worker that a test starts.
os.environ.setdefault("OBOL_DEBUG_CHECKS", "20")

import pytest

from tests.support.namespaces import fresh_namespace
from tests.support.services import session_service
from tools.console import ToolError
from tools.services import KAFKA, REDIS

if TYPE_CHECKING:
    from collections.abc import Iterator

_NAMESPACE_STEM_CHARS = 24


def _unavailable(what: str) -> None:
    """Skip the test if an optional program is missing; fail in CI, where a skip would go unnoticed."""
    if os.environ.get("CI"):
        pytest.fail(what)
    pytest.skip(what)


@pytest.fixture(scope="session")
def kafka_bootstrap() -> Iterator[str]:
    """Bootstrap address of a real broker, for the whole session."""
    with session_service(KAFKA) as address:
        yield address


@pytest.fixture(scope="session")
def redis_url() -> Iterator[str]:
    """URL of a real Redis, for the whole session."""
    try:
        with session_service(REDIS) as address:
            yield address
    except ToolError as error:
        _unavailable(str(error))


@pytest.fixture
def namespace(request: pytest.FixtureRequest) -> Iterator[str]:
    """`OBOL_NAMESPACE` that no other test uses, so that all can share one cluster."""
    bootstrap = request.getfixturevalue("kafka_bootstrap") if "kafka_bootstrap" in request.fixturenames else None
    stem = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower()).strip("-")[:_NAMESPACE_STEM_CHARS].strip("-")
    with fresh_namespace(bootstrap, stem) as namespace:
        yield namespace


@pytest.fixture(scope="session")
def chromium() -> tuple[str, str]:
    """Paths of Chromium and its driver."""
    browser, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if browser is None or driver is None:
        _unavailable("no Chromium with its driver here: install chromium and chromium-driver")
    assert browser is not None
    assert driver is not None
    return browser, driver
