"""A small soak run on a real broker, in time-lapse: a worker is killed, and every usage event is sent exactly once."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from aiokafka.admin import AIOKafkaAdminClient

from tools.console import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.kafka

DEADLINE_S = 300.0
POLL_S = 0.05
REPLICAS = 2_000
MINUTES = 4


@contextmanager
def soak(bootstrap: str, log: Path, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run `python -m bench.soak` with `options`; it is stopped at the end."""
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "bench.soak", "--minute-s", "8", *options],
            cwd=ROOT,
            env={**os.environ, "KAFKA_BOOTSTRAP_SERVERS": bootstrap},
            stdout=out,
            stderr=out,
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
        process.wait(DEADLINE_S)


def test_a_killed_worker_loses_and_doubles_nothing(kafka_bootstrap: str, tmp_path: Path) -> None:
    log, report = tmp_path / "log", tmp_path / "report.json"
    options = ("--replicas", str(REPLICAS), "--minutes", str(MINUTES), "--json", str(report))
    with soak(kafka_bootstrap, log, *options) as process:
        code = process.wait(DEADLINE_S)
    assert code == 0, log.read_text()
    written: dict[str, Any] = json.loads(report.read_text())
    figures = {(figure["part"], figure["name"]): figure["value"] for figure in written["figures"]}
    # Each replica starts in a minute of its own before the first of the four, and so has five usage events.
    assert figures["usage events", "committed"] == REPLICAS * (MINUTES + 1)
    assert [figures["usage events", name] for name in ("lost", "doubled", "wrong")] == [0, 0, 0]
    assert "The worker was killed with SIGKILL" in log.read_text()
    assert [minute["minute"] for minute in written["minutes"]] == [1, 2, 3, 4]
    # Without heartbeats, no window would have been billed up to the last minute (B3).
    assert figures["heartbeats", "committed"] >= REPLICAS


async def test_an_interrupted_run_leaves_nothing_behind(kafka_bootstrap: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    with soak(kafka_bootstrap, log, "--replicas", "100", "--minutes", "9") as process:
        wait_for("minute 1 of 9", log, process)
        namespace = log.read_text().partition("Soak run ")[2].partition(":")[0]
        assert namespace in await namespaces(kafka_bootstrap)
        # A worker, the writer and the auditor; the run itself does not have it in its environment.
        end_s = time.monotonic() + DEADLINE_S
        while len(processes_of(namespace)) < 3:
            assert time.monotonic() < end_s, log.read_text()
            await asyncio.sleep(POLL_S)
        process.terminate()
        assert process.wait(DEADLINE_S) == 130
    assert processes_of(namespace) == []
    assert not (ROOT / ".obol" / namespace).exists()
    assert namespace not in await namespaces(kafka_bootstrap)


def wait_for(words: str, log: Path, process: subprocess.Popen[bytes]) -> None:
    end_s = time.monotonic() + DEADLINE_S
    while words not in log.read_text():
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < end_s, log.read_text()
        time.sleep(POLL_S)


async def namespaces(bootstrap: str) -> set[str]:
    """Return the namespaces of the benchmarks on the cluster."""
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        return {found[0] for name in await admin.list_topics() if (found := re.match(r"bench-[0-9a-f]{8}(?=\.)", name))}
    finally:
        await admin.close()


def processes_of(namespace: str) -> list[int]:
    """Return the ids of the processes with a namespace in their environment."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            environ = (folder / "environ").read_bytes()
        except OSError:  # it has exited, or is not ours
            continue
        if f"OBOL_NAMESPACE={namespace}".encode() in environ.split(b"\0"):
            found.append(int(folder.name))
    return found
