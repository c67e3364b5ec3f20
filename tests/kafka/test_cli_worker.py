"""The command line and a real worker: a deployment, from its price to the explanation of its usage."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import pytest
from aiohttp import ClientSession

from tests.support.workers import Installation, Worker
from tests.unit.cli.obol import CommandOutput, obol
from tests.unit.metrics.test_metrics import samples, summed

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    RunObol = Callable[..., Coroutine[None, None, CommandOutput]]

pytestmark = pytest.mark.kafka

DEADLINE_S = 60


@pytest.fixture
def run_obol(
    kafka_bootstrap: str, namespace: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> RunObol:
    for name, value in Installation(kafka_bootstrap, namespace).environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("COLUMNS", "300")

    async def call(*arguments: str) -> CommandOutput:
        return await asyncio.to_thread(obol, capsys, *arguments)

    return call


async def metrics(url: str) -> dict[tuple[str, ...], float]:
    async with ClientSession() as session, session.get(f"{url}/metrics") as answer:
        assert answer.status == 200
        return samples(await answer.text())


async def replay_after_the_fix(run_obol: RunObol, url: tuple[str, str]) -> None:
    """Replay a callback that was a dead letter because its replica was not known yet."""
    early = ("show", "replica", "late-r1", "--org", "acme", *url, "--json")
    assert json.loads((await run_obol(*early)).out)["status"] == "pending"
    output = await run_obol("dead", "replay", "--topic", "execlet.progress", "--org", "acme")
    assert (output.code, output.err) == (0, "")
    assert "1 record sent again" in output.out
    async with asyncio.timeout(DEADLINE_S):
        while json.loads((await run_obol(*early)).out)["status"] != "running":  # noqa: ASYNC110 - a worker's response
            await asyncio.sleep(0.1)
    again = await run_obol("dead", "replay", "--topic", "execlet.progress", "--org", "acme")
    assert "0 records sent again" in again.out
    assert "1 record skipped: replayed before" in again.out


def check(samples: dict[tuple[str, ...], float], partitions: int) -> None:
    """Compare a worker's metrics with what was sent and what resulted from it."""
    assert summed(samples, "obol_records_read_total", "user.commands") == 3
    assert summed(samples, "obol_records_read_total", "obol.clock") == partitions
    assert summed(samples, "obol_records_applied_total", "execlet.heartbeats") == 1
    assert summed(samples, "obol_records_dead_total", "unknown_replica") == 2
    assert summed(samples, "obol_usage_events_total", "dedicated") == 2
    assert summed(samples, "obol_replicas", "running") == 2
    assert summed(samples, "obol_windows", "open") == 2
    assert summed(samples, "obol_window_seconds", "billed") == 110
    assert summed(samples, "obol_unexplained_seconds") == 0
    assert summed(samples, "obol_lag_records") == 0
    assert summed(samples, "obol_partition_ready") == partitions
    assert samples["obol_tick_delay_seconds_count",] == partitions
    assert samples["obol_commit_duration_seconds_count",] >= 3


async def test_a_deployment_by_command_line(kafka_bootstrap: str, namespace: str, run_obol: RunObol) -> None:
    installation = Installation(kafka_bootstrap, namespace)
    await installation.provision()
    day = "2026-11-29"
    with Worker(installation) as worker:

        async def at(clock: str, *arguments: str) -> CommandOutput:
            output = await run_obol("send", *arguments, "--at", f"{day}T{clock}Z")
            assert output.code in {0, 1}, output.err + worker.tail()
            return output

        org = ("--org", "acme")
        await at("11:00:00", "price", "--profile", "dedicated.h100.1x", "--price", "360")
        hardware = ("--model", "llama", "--gpu-type", "h100", "--gpu-count", "1")
        waited = ("--wait", "--timeout", str(DEADLINE_S))
        created = await at("12:00:00", "command", "create_deployment", *org, "--deployment", "chat", *hardware, *waited)
        assert created.out.startswith("accepted 202"), created
        twice = await at("12:00:01", "command", "create_deployment", *org, "--deployment", "chat", *hardware, *waited)
        assert twice.code == 1
        assert twice.out.startswith("rejected ALREADY_EXISTS 409")
        healthy = ("--status", "RUNNING", "--message", "healthy")
        await at("12:00:10", "progress", *org, "--replica", "chat-r1", *healthy)
        await at("12:01:00", "heartbeat", *org, "--replica", "chat-r1")
        await at("12:01:00", "heartbeat", *org, "--replica", "chat-r9")
        await at("12:02:00", "tick")
        await installation.wait_until_caught_up([worker])

        usage = await run_obol("tail", "usage", "--no-follow", "--json", "--since", "0")
        events = [json.loads(line) for line in usage.out.splitlines()]
        # Running from 12:00:10; at 12:02 the last heartbeat covers up to 12:02:30, whole minutes while open (B3, B4).
        assert [(event["interval_start"], event["duration_ms"]) for event in events] == [
            (f"{day}T12:00:10.000Z", 50_000),
            (f"{day}T12:01:00.000Z", 60_000),
        ]
        dead = await run_obol("tail", "dead", "--no-follow", "--since", "0", "--org", "acme")
        assert "unknown_replica" in dead.out
        assert "chat-r9" in dead.out
        changes = await run_obol("tail", "changes", "--no-follow", "--since", "0")
        assert "running" in changes.out

        url = ("--url", worker.url)
        replica = json.loads((await run_obol("show", "replica", "chat-r1", *org, *url, "--json")).out)
        assert replica["windows"][0]["billed_ms"] == 110_000
        why = json.loads((await run_obol("explain", events[0]["id"], *org, *url, "--json")).out)
        assert why["charged"] is True
        assert why["price"]["price"] == "360"

        await at("12:02:10", "progress", *org, "--replica", "late-r1", *healthy)
        await at("12:02:20", "command", "create_deployment", *org, "--deployment", "late", *hardware, *waited)
        await replay_after_the_fix(run_obol, url)

        samples = await metrics(worker.url)
        check(samples, installation.partitions)
        total = {key: value for key, value in samples.items() if key[0].endswith("_total") and "obol" in key[0]}
    # What is counted is committed with the partitions, so the next owner reports it, too.
    with Worker(installation) as worker:
        worker.wait_for("Worker ready")
        again = await metrics(worker.url)
        assert {key: again.get(key) for key in total} == total
