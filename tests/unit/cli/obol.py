"""Run commands of `obol` in the test's process."""

from __future__ import annotations

import io
import sys
from typing import NamedTuple

import pytest

from streams.cli import run


class CommandOutput(NamedTuple):
    """A command's exit code, stdout and stderr."""

    code: int
    out: str
    err: str


class _Stdin:
    """A stdin with these bytes."""

    def __init__(self, content: bytes) -> None:
        self.buffer = io.BytesIO(content)


def obol(capsys: pytest.CaptureFixture[str], *arguments: str, stdin: bytes = b"") -> CommandOutput:
    """Run one command."""
    capsys.readouterr()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdin", _Stdin(stdin))
        code = run(list(arguments))
    return CommandOutput(code, *capsys.readouterr())
