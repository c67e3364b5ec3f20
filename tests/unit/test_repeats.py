"""Repeated lines of a client are logged every ten seconds; those of Obol always."""

from __future__ import annotations

import logging

from streams.repeats import EVERY_S, Repeats


def line(name: str, message: str, *, at: int = 1, level: int = logging.ERROR) -> logging.LogRecord:
    return logging.LogRecord(name, level, __file__, at, message, (), None)


def test_a_line_of_a_client_is_logged_every_ten_seconds_with_any_values() -> None:
    now_s = 0.0
    repeats = Repeats(lambda: now_s)
    written = []
    for step in range(300):
        now_s = step / 10
        if repeats.filter(line("aiokafka", f"Unable connect to node with id {step}")):
            written.append(now_s)
    assert written == [0.0, EVERY_S, 2 * EVERY_S]


def test_other_lines_are_written_always() -> None:
    repeats = Repeats(lambda: 0.0)
    assert repeats.filter(line("aiokafka", "Unable connect to node with id 1", at=1))
    assert repeats.filter(line("aiokafka", "Unable to update metadata from [1]", at=2))
    for _ in range(2):
        assert repeats.filter(line("streams.engine.cluster", "the cluster has not answered", at=3))
        assert repeats.filter(line("aiokafka", "Discovered coordinator", level=logging.INFO))
