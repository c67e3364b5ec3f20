"""The command line as a test calls it."""

from __future__ import annotations

import io
import sys
from typing import NamedTuple

import pytest

from streams.cli import run


class Said(NamedTuple):
    """What a command answered."""

    code: int
    out: str
    err: str


class _Stdin:
    """Standard input with these bytes."""

    def __init__(self, content: bytes) -> None:
        self.buffer = io.BytesIO(content)


def obol(capsys: pytest.CaptureFixture[str], *arguments: str, stdin: bytes = b"") -> Said:
    """Run one command in this process."""
    capsys.readouterr()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdin", _Stdin(stdin))
        code = run(list(arguments))
    return Said(code, *capsys.readouterr())
