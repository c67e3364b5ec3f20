"""The engine uses the clock and Kafka only through its ports."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import streams.engine

FOLDER = Path(streams.engine.__file__).parent

BELOW = {"batches.py", "clock.py", "decompress.py", "fetcher.py", "kafka.py", "metadata.py", "transport.py"}
"""What implements the ports, and Faust's transport, which reads for them."""

EXEMPT = {
    ("tasks.py", "asyncio.wait"),  # cancels a task again that some library lost hold of
}

FORBIDDEN_MODULES = {"time", "datetime", "random"}
FORBIDDEN_CALLS = {"asyncio.sleep", "asyncio.timeout", "asyncio.timeout_at", "asyncio.wait_for", "asyncio.wait"}


def faults(source: str, file: str) -> list[str]:
    found = []
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Import | ast.ImportFrom | ast.Attribute):
            continue
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node.value, ast.Name):
            names = [f"{node.value.id}.{node.attr}"]
        for name in names:
            is_client = name.startswith("aiokafka") and not name.startswith("aiokafka.errors.")
            is_time = name.split(".")[0] in FORBIDDEN_MODULES and not isinstance(node, ast.Attribute)
            if is_client or is_time or (name in FORBIDDEN_CALLS and (file, name) not in EXEMPT):
                found.append(f"{file}:{node.lineno} {name}")
    return found


def test_only_the_ports_read_a_clock_sleep_or_create_a_client() -> None:
    files = [path for path in sorted(FOLDER.glob("*.py")) if path.name not in BELOW]
    assert {"engine.py", "commit.py", "scheduling.py", "shard.py"} <= {path.name for path in files}
    assert [fault for path in files for fault in faults(path.read_text(encoding="utf-8"), path.name)] == []


@pytest.mark.parametrize(
    "source",
    [
        "import time",
        "from time import monotonic",
        "import datetime",
        "import asyncio\nasyncio.sleep(1)",
        "from asyncio import sleep",
        "import asyncio\nasyncio.wait_for(x, 1)",
        "from aiokafka import AIOKafkaProducer",
        "import aiokafka",
    ],
)
def test_each_use_without_a_port_is_found(source: str) -> None:
    assert len(faults(source, "engine.py")) == 1


def test_errors_of_aiokafka_may_be_named() -> None:
    assert faults("from aiokafka.errors import KafkaError", "engine.py") == []
