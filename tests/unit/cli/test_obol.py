"""What all commands have in common: help, usage errors, exit codes, a closed pipe, completion."""

from __future__ import annotations

import itertools
import os
import shlex
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.unit.cli.obol import obol
from tools.console import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

GROUPS = ["send", "send command", "send report", "tail", "show", "topics", "dead"]
COMMANDS = [
    *(f"send command {name}" for name in ("create_deployment", "stop_deployment", "deploy_instance")),
    *(f"send command {name}" for name in ("start_instance", "stop_instance", "destroy_instance")),
    *(f"send report {name}" for name in ("launch_failed", "workload_up", "teardown_finished")),
    *(
        f"send {name}"
        for name in ("progress", "heartbeat", "request", "balance", "suspend", "reinstate", "price", "tick")
    ),
    *(f"tail {name}" for name in ("usage", "changes", "results", "orders", "dead")),
    *(f"show {name}" for name in ("org", "deployment", "replica", "instance", "window")),
    "explain",
    *(f"topics {name}" for name in ("create", "check", "list")),
    *(f"dead {name}" for name in ("list", "replay")),
]


@pytest.mark.parametrize("command", ["", *GROUPS, *COMMANDS])
def test_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    output = obol(capsys, *command.split(), "--help")
    assert (output.code, output.err) == (0, "")
    assert output.out.startswith(f"Usage: obol {command}".strip())


@pytest.mark.parametrize("command", ["", *GROUPS])
def test_a_group_without_a_command_prints_its_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    output = obol(capsys, *command.split())
    assert (output.code, output.err) == (0, "")
    assert "Commands:" in output.out


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("fly", "No such command 'fly'; see `obol --help`"),
        ("send command fly", "No such command 'fly'; see `obol send command --help`"),
        ("send heartbeat --speed 3", "No such option: --speed"),
        ("send command create_deployment --gpu-count many", "--gpu-count"),
        ("send command create_deployment --org acme", "--deployment: is required"),
        ("send command create_deployment --gpu-count 17", "--gpu-count: input should be less than or equal to 16"),
        ("send progress --org acme --replica r --status UP", "UP"),
        ("send heartbeat --json {} --org acme", "--json is the whole value"),
        ("send command --json {} stop_instance", "--json is the whole value"),
        ("send price --profile disk --price 1 --remove", "--remove takes only --profile"),
        ("send tick --at soon", "OBOL_TIMESTAMPS"),
        ("tail usage --since soon", "is not a time"),
        ("dead replay", "use --all"),
        ("dead replay --reason bad", "is not one of too_large"),
        ("dead list --topic croesus.usage", "is not one of croesus.prices"),
        ("show org", "Missing argument"),
    ],
)
def test_wrong_usage_is_one_line(command: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    output = obol(capsys, *command.split())
    assert (output.code, output.out) == (2, "")
    assert output.err.startswith("error: ")
    assert output.err.count("\n") == 1
    assert words in output.err


def test_a_wrong_setting_is_the_workers_message(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OBOL_PARTITIONS", "many")
    output = obol(capsys, "topics", "list")
    assert (output.code, output.out) == (2, "")
    assert output.err == "error: OBOL_PARTITIONS is 'many'; set it to a whole number from 1 to 1000\n"


def test_no_broker(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", "127.0.0.1:1")
    for command in ("topics list", "tail usage --no-follow", "send heartbeat --org a --replica r", "dead list"):
        output = obol(capsys, *command.split())
        assert (output.code, output.out) == (1, "")
        assert output.err.startswith("error: no broker answers at 127.0.0.1:1: ")
        assert output.err.count("\n") == 1


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    """A process that prints help, with its output not read yet."""
    with subprocess.Popen(
        [sys.executable, "-m", "streams.cli", "send", "--help"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as running:
        yield running
        running.kill()


def test_python_m_is_equivalent(process: subprocess.Popen[bytes]) -> None:
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, b"")
    assert out.startswith(b"Usage: obol send")


def test_a_closed_pipe_is_quiet(process: subprocess.Popen[bytes]) -> None:
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait(60) == 1


def test_completion() -> None:
    environ = {**os.environ, "_OBOL_COMPLETE": "complete_bash", "COMP_WORDS": "obol send command st", "COMP_CWORD": "3"}
    done = subprocess.run(
        [sys.executable, "-m", "streams.cli"], cwd=ROOT, env=environ, capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == ["stop_deployment", "start_instance", "stop_instance"]


def examples() -> list[str]:
    page = (ROOT / "docs/command-line.md").read_text(encoding="utf-8")
    return [line.removeprefix("$ obol ") for line in page.splitlines() if line.startswith("$ obol ")]


def test_the_page_has_an_example_of_every_command() -> None:
    shown = {" ".join(itertools.takewhile(str.isidentifier, example.split())) for example in examples()}
    for command in COMMANDS:
        start = " ".join(command.split()[:2]) if command.startswith(("send command", "send report")) else command
        assert any(words.startswith(start) for words in shown), command


@pytest.mark.parametrize("example", examples())
def test_every_example_parses(
    example: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Nothing listens there, so an example that parses fails to connect.
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", "127.0.0.1:1")
    monkeypatch.setenv("OBOL_ADVERTISED_URL", "http://127.0.0.1:1")
    output = obol(capsys, *shlex.split(example))
    assert "answers at" in output.err
    assert output.code in {1, 3}
