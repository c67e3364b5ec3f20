"""One worker, and a client that uses only the wire contract."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.namespaces import fresh_namespace
from tests.support.outside import Outside
from tests.support.workers import Installation, Worker

if TYPE_CHECKING:
    from collections.abc import Iterator

PARTITIONS = 4


@pytest.fixture(scope="package")
def obol(kafka_bootstrap: str) -> Iterator[Outside]:
    """Run a worker in a new namespace. The test writes its ticks and sets all timestamps."""
    with (
        fresh_namespace(kafka_bootstrap, "contract") as namespace,
        Outside(kafka_bootstrap, namespace, PARTITIONS) as outside,
        Worker(Installation(kafka_bootstrap, namespace, PARTITIONS)) as worker,
    ):
        outside.url = worker.url

        def ready() -> bool:
            worker.check()
            return outside.ready()

        outside.until(ready, "the worker is ready")
        yield outside
