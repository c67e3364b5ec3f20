"""One worker, and a client that speaks only the wire contract."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pytest

from tests.support.outside import Outside
from tests.support.workers import Installation, Worker

if TYPE_CHECKING:
    from collections.abc import Iterator

PARTITIONS = 4


@pytest.fixture(scope="package")
def obol(kafka_bootstrap: str) -> Iterator[Outside]:
    """A worker on an empty namespace, whose clock and timestamps are the test's."""
    namespace = f"contract-{uuid.uuid4().hex[:8]}"
    installation = Installation(kafka_bootstrap, namespace, PARTITIONS)
    with Outside(kafka_bootstrap, namespace, PARTITIONS) as outside, Worker(installation) as worker:
        outside.url = worker.url

        def ready() -> bool:
            worker.check()
            return outside.ready()

        outside.until(ready, "the worker is ready")
        yield outside
