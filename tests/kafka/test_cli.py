"""The command line on a real broker: sending, following, creating and checking topics, and replay."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from schemas.dead_letters import DeadLetter
from schemas.results import CommandResult
from schemas.times import rfc3339
from tests.support.workers import Installation, Sent
from tests.unit.cli.obol import CommandOutput, obol
from tools.console import ROOT
from topics.codec import encode

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    RunObol = Callable[..., Coroutine[None, None, CommandOutput]]

pytestmark = pytest.mark.kafka

NOON_MS = 1_764_417_600_000  # 2025-11-29T12:00:00Z


@pytest.fixture
async def installation(kafka_bootstrap: str, namespace: str) -> Installation:
    made = Installation(kafka_bootstrap, namespace)
    await made.provision()
    return made


@pytest.fixture
def run_obol(
    kafka_bootstrap: str, namespace: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> RunObol:
    for name, value in Installation(kafka_bootstrap, namespace).environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("COLUMNS", "300")

    async def call(*arguments: str, stdin: bytes = b"") -> CommandOutput:
        return await asyncio.to_thread(obol, capsys, *arguments, stdin=stdin)

    return call


async def test_topics_are_created_checked_and_listed(run_obol: RunObol, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = await run_obol("topics", "check")
    assert missing.code == 1
    assert "user.commands" in missing.err
    assert "obol topics create" in missing.err
    made = await run_obol("topics", "create")
    assert made.code == 0, made.err
    assert "17 of them new" in made.out
    assert "0 of them new" in (await run_obol("topics", "create")).out
    assert (await run_obol("topics", "check")).code == 0
    listed = [json.loads(line) for line in (await run_obol("topics", "list", "--json")).out.splitlines()]
    assert [row["partitions"] for row in listed] == [1] + [4] * 16
    monkeypatch.setenv("OBOL_PARTITIONS", "5")
    other = await run_obol("topics", "check")
    assert other.code == 1
    assert "has 4 partitions, OBOL_PARTITIONS says 5" in other.err


async def test_a_missing_topic_is_reported_and_not_created(run_obol: RunObol) -> None:
    output = await run_obol("send", "heartbeat", "--org", "acme", "--replica", "r")
    assert output.code == 1
    assert "execlet.heartbeats does not exist: run `obol topics create`" in output.err
    assert (await run_obol("topics", "check")).code == 1


async def test_sent_records_are_in_the_partitions_of_the_contract(
    installation: Installation, run_obol: RunObol
) -> None:
    at = ("--at", "2025-11-29T12:00:00Z")
    sent = [
        await run_obol("send", "price", "--profile", "disk", "--price", "0.5", *at),
        await run_obol("send", "price", "--profile", "disk", "--remove", *at),
        await run_obol("send", "balance", "--org", "acme", "--balance", "-3.50", "--sequence", "7", *at),
        await run_obol("send", "command", "stop_instance", "--org", "acme", "--instance", "i1", "--command", "c1", *at),
        await run_obol(
            "send", "report", "launch_failed", "--org", "acme", "--instance", "i1", "--no-reached-host", *at
        ),
        await run_obol("send", "progress", "--org", "acme", "--replica", "r", "--status", "RUNNING", *at),
        await run_obol("send", "request", "--org", "acme", "--deployment", "d", "--count", "3", *at),
        await run_obol("send", "heartbeat", "--org", "acme", "--replica", "r", *at),
        await run_obol("send", "tick", *at),
    ]
    assert [output.err for output in sent if output.code] == []
    home = installation.place("user.commands", "acme")
    prices = await installation.read("croesus.prices")
    assert [(record.key, record.value) for record in prices] == [
        (b"disk", b'{"currency":"JPY","profile":"disk","price":"0.5"}'),
        (b"disk", None),
    ]
    (balance,) = await installation.read("croesus.accounts")
    assert (balance.partition, balance.key, balance.timestamp) == (home, b"acme", NOON_MS)
    content = json.loads(balance.value or b"")
    assert content.pop("event_id").startswith("obol-cli-")
    assert content == {"type": "balance_updated", "org_id": "acme", "balance": "-3.50", "sequence": 7}
    (command,) = await installation.read("user.commands")
    assert json.loads(command.value or b"") == {
        "type": "stop_instance",
        "org_id": "acme",
        "instance_id": "i1",
        "command_id": "c1",
    }
    (report,) = await installation.read("host.reports")
    assert json.loads(report.value or b"")["reached_host"] is False
    ticks = await installation.read("obol.clock")
    assert [(tick.partition, tick.key, tick.value, tick.timestamp) for tick in ticks] == [
        (partition, None, b'{"type":"tick"}', NOON_MS) for partition in range(4)
    ]


async def test_many_from_stdin_all_or_none(installation: Installation, run_obol: RunObol) -> None:
    lines = [json.dumps({"org_id": f"org{number}", "replica_id": "r"}) for number in range(50)]
    bad = await run_obol("send", "heartbeat", "--json", "-", stdin="\n".join([*lines, '{"org_id":"x"}']).encode())
    assert bad.code == 2
    assert "line 51" in bad.err
    assert await installation.read("execlet.heartbeats") == []
    good = await run_obol("send", "heartbeat", "--json", "-", stdin="\n".join(lines).encode())
    assert good.out == f"sent 50 records to {installation.namespace}.execlet.heartbeats\n"
    found = await installation.read("execlet.heartbeats")
    assert sorted(record.value or b"" for record in found) == sorted(line.encode() for line in lines)
    assert all(
        record.partition == installation.place("execlet.heartbeats", (record.key or b"").decode()) for record in found
    )


def result(org_id: str, command_id: str, code: Any = None) -> Sent:
    content = CommandResult(
        command_id=command_id,
        org_id=org_id,
        outcome="rejected" if code else "accepted",
        code=code,
        status=409 if code else 202,
        message="said so\x1b[2J",
        target="i1",
        at=rfc3339(NOON_MS),
    )
    return Sent("command.results", NOON_MS, org_id.encode(), encode(content), 0)


async def answer(installation: Installation, *results: Sent) -> None:
    """Write results of commands as a worker would, once the commands are stored."""
    while len(await installation.read("user.commands")) < len(results):  # noqa: ASYNC110 - what is waited for is in Kafka
        await asyncio.sleep(0.05)
    placed = [one._replace(partition=installation.place(one.topic, (one.key or b"").decode())) for one in results]
    await installation.send(placed)


@pytest.mark.parametrize(
    ("code", "exit_code", "words"), [(None, 0, "accepted 202"), ("ILLEGAL_TRANSITION", 1, "rejected")]
)
async def test_a_result_is_waited_for(
    installation: Installation, run_obol: RunObol, code: str | None, exit_code: int, words: str
) -> None:
    # Results of another command, and of another org's command of the same id, are ignored.
    old = [result("acme", "c0", "NOT_FOUND"), result("other", "c1", "NOT_FOUND")]
    await installation.send(one._replace(partition=installation.place(one.topic, "acme")) for one in old)
    asked = ("send", "command", "stop_instance", "--org", "acme", "--instance", "i1", "--command", "c1", "--wait")
    output, _ = await asyncio.gather(
        run_obol(*asked, "--timeout", "60"), answer(installation, result("acme", "c1", code))
    )
    assert output.code == exit_code, output.err
    assert output.out.startswith(words)
    assert output.out.count("\n") == 1
    assert "said so\\u001b[2J" in output.out
    assert "sent c1 to" in output.err


async def test_no_result_in_time(installation: Installation, run_obol: RunObol) -> None:
    del installation
    output = await run_obol(
        "send",
        "command",
        "stop_instance",
        "--org",
        "acme",
        "--instance",
        "i1",
        "--command",
        "c9",
        "--wait",
        "--timeout",
        "0.5",
    )
    assert (output.code, output.out) == (3, "")
    assert "no result of c9 within 0.5 s" in output.err


async def test_at_is_refused_where_it_has_no_effect(run_obol: RunObol, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OBOL_TIMESTAMPS", "broker")
    output = await run_obol("send", "tick", "--at", "now")
    assert output.code == 2
    assert "OBOL_TIMESTAMPS=producer" in output.err


def change(installation: Installation, org_id: str, number: int) -> Sent:
    value = {
        "event_id": f"deployment:d:{number}",
        "org_id": org_id,
        "kind": "deployment",
        "id": "d",
        "to": "created",
        "reason": f"reason{number}",
        "at": rfc3339(NOON_MS + number),
    }
    place = installation.place("lifecycle.changes", org_id)
    return Sent("lifecycle.changes", NOON_MS + number, org_id.encode(), json.dumps(value).encode(), place)


def reasons(output: CommandOutput) -> list[str]:
    assert output.code == 0, output.err
    return [json.loads(line)["reason"] for line in output.out.splitlines()]


async def test_tail(installation: Installation, run_obol: RunObol) -> None:
    orgs = ["acme", "other", "third"]
    await installation.send(change(installation, orgs[number % 3], number) for number in range(30))
    every = ("tail", "changes", "--no-follow", "--json")
    assert reasons(await run_obol(*every, "--last", "4")) == ["reason26", "reason27", "reason28", "reason29"]
    assert len(reasons(await run_obol(*every))) == 10
    since = reasons(await run_obol(*every, "--since", str(NOON_MS + 20)))
    assert sorted(since) == sorted(f"reason{number}" for number in range(20, 30))
    of_org = reasons(await run_obol(*every, "--org", "acme", "--since", "0"))
    assert of_org == [f"reason{number}" for number in range(0, 30, 3)]
    shown = await run_obol("tail", "changes", "--no-follow", "--last", "2")
    lines = shown.out.splitlines()
    assert lines[0].split() == ["AT", "ORG", "KIND", "ID", "FROM", "TO", "REASON", "ERROR"]
    assert [line.split()[-1] for line in lines[1:]] == ["reason28", "reason29"]


async def test_tail_follows_until_ctrl_c_and_then_prints_nothing(installation: Installation, run_obol: RunObol) -> None:
    del run_obol
    await installation.send([change(installation, "acme", 1)])
    running = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "streams.cli", "tail", "changes", "--json"),
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert running.stdout is not None
    assert running.stderr is not None
    async with asyncio.timeout(60):
        assert b"reason1" in await running.stdout.readline()
        await installation.send([change(installation, "acme", 2)])
        assert b"reason2" in await running.stdout.readline()
        running.send_signal(signal.SIGINT)
        assert await running.wait() == 130
        assert await running.stderr.read() == b""


def letter(offset: int, value: bytes, *, reason: str = "unknown_replica", truncated: bool = False) -> Sent:
    import base64  # noqa: PLC0415 - used only here

    content = DeadLetter.model_validate(
        {
            "reason": reason,
            "error": "because",
            "topic": "execlet.heartbeats",
            "partition": 2,
            "offset": offset,
            "timestamp": NOON_MS + offset,
            "key_base64": base64.b64encode(b"acme").decode(),
            "value_base64": base64.b64encode(value).decode(),
            "truncated": truncated,
        }
    )
    return Sent("dead.letters", NOON_MS, None, encode(content), 2)


async def test_dead_letters_are_listed_and_sent_again_once(installation: Installation, run_obol: RunObol) -> None:
    values = [b'{"org_id":"acme","replica_id":"r"}', b"\xff\x00no json", b"x" * 70_000]
    # The records themselves, so that their offsets exist, and earlier records of the topic.
    await installation.send(Sent("execlet.heartbeats", NOON_MS, b"acme", value, 2) for value in values)
    await installation.send(
        [
            letter(0, values[0]),
            letter(1, values[1], reason="undecodable"),
            letter(2, values[2][:65_536], reason="too_large", truncated=True),
        ]
    )
    listed = [json.loads(line) for line in (await run_obol("dead", "list", "--json")).out.splitlines()]
    assert [(row["reason"], row["offset"], row["org_id"]) for row in listed] == [
        ("unknown_replica", 0, "acme"),
        ("undecodable", 1, None),
        ("too_large", 2, None),
    ]
    assert "1 dead letter\n" in (await run_obol("dead", "list", "--org", "acme")).out
    assert "execlet.heartbeats[2]@1" in (await run_obol("dead", "list", "--reason", "undecodable")).out

    dry = await run_obol("dead", "replay", "--reason", "unknown_replica", "--dry-run")
    assert dry.code == 0
    assert "1 record would be sent again" in dry.out
    assert len(await installation.read("execlet.heartbeats")) == 3

    first = await run_obol("dead", "replay", "--reason", "unknown_replica")
    assert first.code == 0, first.err
    assert "1 record sent again" in first.out
    again = (await installation.read("execlet.heartbeats"))[-1]
    assert (again.partition, again.key, again.value, again.timestamp) == (2, b"acme", values[0], NOON_MS)
    assert again.headers == (("obol-replayed", b"2@0"),)

    everything = await run_obol("dead", "replay", "--all")
    assert everything.code == 1
    assert "1 record sent again" in everything.out
    assert "1 record skipped: replayed before" in everything.out
    assert "1 record not sent: dead.letters has only the first 64 KiB" in everything.out
    assert (await installation.read("execlet.heartbeats"))[-1].value == values[1]

    once_more = await run_obol("dead", "replay", "--offset", "0", "--again")
    assert "1 record sent again" in once_more.out
    assert [record.value for record in await installation.read("execlet.heartbeats")] == [
        *values,
        values[0],
        values[1],
        values[0],
    ]
