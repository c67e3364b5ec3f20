from pathlib import Path

import pytest
from typer.testing import CliRunner

from bench import __main__ as command
from bench import peer


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder of programs; it is empty."""
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def test_without_java_and_maven_the_comparison_is_skipped(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "run", None)  # a run would fail
    (programs / "java").write_text("#!/bin/sh\n", encoding="ascii")
    (programs / "java").chmod(0o755)
    result = CliRunner().invoke(command.app, ["--peer", "streams"])
    assert result.exit_code == 0
    assert result.stdout == (
        "skipped: the Kafka Streams program can't be built: javac and mvn not found: "
        "install a JDK (17 or newer) and Maven\n"
    )


@pytest.mark.parametrize(
    ("version", "missing"),
    [("javac 11.0.2", "javac 11.0.2 is too old: install a JDK (17 or newer)"), ("javac 17.0.15", None)],
)
def test_an_old_jdk_is_missing(programs: Path, version: str, missing: str | None) -> None:
    for name in ("java", "javac", "mvn"):
        (programs / name).write_text(f"#!/bin/sh\necho {version}\n", encoding="ascii")
        (programs / name).chmod(0o755)
    assert peer.missing() == missing
