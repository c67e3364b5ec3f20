"""The contract's Settings, with real workers: which settings they refuse, and the topics that they create."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import uuid
from typing import TYPE_CHECKING, Any

import pytest
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from tests.support.contract import INBOUND, OUTBOUND
from tools.console import ROOT
from tools.server import free_ports

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.outside import Outside

pytestmark = pytest.mark.kafka

# The unit tests have many more; these check the exit code and the output of the process.
WRONG: list[tuple[str, dict[str, str | None]]] = [
    ("KAFKA_BOOTSTRAP_SERVERS", {"KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:99999", "CROESUS_HOST": "127.0.0.1:99999"}),
    ("CROESUS_HOST", {"CROESUS_HOST": None}),
    ("CROESUS_HOST", {"CROESUS_HOST": "elsewhere:9092"}),
    ("DEDICATED_BILLING_DRY_RUN", {"DEDICATED_BILLING_DRY_RUN": "on"}),
    ("OBOL_PARTITIONS", {"OBOL_PARTITIONS": "0"}),
    ("OBOL_HTTP_TOKEN", {"OBOL_HTTP_HOST": "192.0.2.1"}),
    ("OBOL_DATA_DIR", {"OBOL_DATA_DIR": "/proc/nothing"}),
    ("KAFKA_SASL_MECHANISM", {"KAFKA_SASL_MECHANISM": "PLAIN"}),
]


def environment(bootstrap: str, namespace: str, folder: Path, changes: dict[str, str | None]) -> dict[str, str]:
    """Return the environment of a worker that would start, with changes."""
    good = {
        "PATH": os.environ["PATH"],
        "KAFKA_BOOTSTRAP_SERVERS": bootstrap,
        "CROESUS_HOST": bootstrap,
        "DEDICATED_BILLING_ENABLED": "1",
        "OBOL_NAMESPACE": namespace,
        "OBOL_PARTITIONS": "3",
        "OBOL_TIMESTAMPS": "producer",
        "OBOL_CLOCK": "log",
        "OBOL_HTTP_PORT": str(free_ports(1)),
        "OBOL_DATA_DIR": str(folder / "made" / "with" / "its" / "parents"),
    }
    return {name: value for name, value in {**good, **changes}.items() if value is not None}


async def run(environ: dict[str, str], *flags: str, deadline_s: float = 60.0) -> tuple[int, str]:
    """Run a worker that ends by itself; return its exit code and its error output."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "faust", "-A", "streams.app", "worker", *flags,
        cwd=ROOT, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        _, errors = await asyncio.wait_for(process.communicate(), deadline_s)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return process.returncode or 0, errors.decode()


async def test_a_wrong_setting_ends_the_worker_at_once_with_code_2_and_one_line(
    kafka_bootstrap: str, namespace: str, tmp_path: Path
) -> None:
    two_at_a_time = asyncio.Semaphore(2)

    async def one(variable: str, changes: dict[str, str | None]) -> str | None:
        async with two_at_a_time:
            code, errors = await run(environment(kafka_bootstrap, namespace, tmp_path, changes))
        lines = errors.strip().splitlines()
        fine = code == 2 and len(lines) == 1 and re.search(rf"\b{variable}\b", lines[0])
        return None if fine else f"{changes}: code {code}, {errors[-1000:]}"

    assert [fault for fault in await asyncio.gather(*(one(*case) for case in WRONG)) if fault] == []


async def test_a_topic_that_does_not_fit_ends_the_worker_with_one_line(kafka_bootstrap: str, tmp_path: Path) -> None:
    producer, broker = {"message.timestamp.type": "CreateTime"}, {"message.timestamp.type": "LogAppendTime"}
    cases: list[tuple[str, int, dict[str, str], dict[str, str | None], str]] = [
        ("user.commands", 5, producer, {}, "OBOL_PARTITIONS"),
        ("croesus.prices", 2, producer, {}, "2 partitions"),
        ("host.reports", 3, broker, {}, "OBOL_TIMESTAMPS"),
    ]
    admin = AIOKafkaAdminClient(bootstrap_servers=kafka_bootstrap)
    await admin.start()
    try:
        for topic, partitions, config, changes, word in cases:
            namespace = f"unfit-{uuid.uuid4().hex[:8]}"
            name = f"{namespace}.{topic}"
            await admin.create_topics([NewTopic(name, partitions, 1, topic_configs=config)])
            code, errors = await run(environment(kafka_bootstrap, namespace, tmp_path, changes))
            assert code == 2, errors
            (line,) = errors.strip().splitlines()
            assert name in line
            assert word in line
    finally:
        await admin.close()


async def config_of(admin: AIOKafkaAdminClient, topic: str) -> dict[str, str]:
    """Return a topic's configuration."""
    (answer,) = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
    return {entry[0]: entry[1] for entry in answer.resources[0][4]}


async def test_the_worker_makes_its_topics_under_its_prefix(obol: Outside) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=obol.bootstrap)
    await admin.start()
    try:
        made: dict[str, Any] = {
            topic["topic"].removeprefix(f"{obol.namespace}."): len(topic["partitions"])
            for topic in await admin.describe_topics()
            if topic["topic"].startswith(f"{obol.namespace}.")
        }
        contracted = {"croesus.prices": 1, **dict.fromkeys((*INBOUND, *OUTBOUND), obol.partitions)}
        assert made.items() >= contracted.items()
        assert all(topic.startswith("obol-") for topic in made.keys() - contracted.keys())
        for topic in ("croesus.prices", *INBOUND):
            config = await config_of(admin, obol.topic(topic))
            assert config["message.timestamp.type"] == "CreateTime", topic
        assert (await config_of(admin, obol.topic("croesus.prices")))["cleanup.policy"] == "delete"
        assert (await config_of(admin, obol.topic("croesus.prices")))["retention.ms"] == "-1"
        assert obol.topic("obol") in [group[0] for group in await admin.list_consumer_groups()]
    finally:
        await admin.close()
