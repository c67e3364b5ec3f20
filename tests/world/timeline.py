"""The timeline language: records with their times, and under them the expected outputs and rows.

    # a comment
    12:00 healthy d1-r1            one record; its time is the record's timestamp
    & tick                         sent together with the record above, at its time (`& 11:59 tick`: at another)
      > replica d1-r1 …            the outputs of this step, all of them, in order within each kind
      ? window d1-r1.w1: …         the state afterwards
      > … 74 more                  matches that many lines, in any place
    12:00:30..12:30 heartbeat d1-r1 every 30s; tick every 1m
                                   many records in one step, at the multiples of each period, both ends included;
                                   `{n}` in them is 1, 2, 3 …

A time is `[<n>d ]HH:MM[:SS[.mmm]]`, on day 0 of the scenario or n days later. Before a verb, `<org>:` names another org
than `acme`. `records.py` lists the verbs, `words.py` the format of expected lines, in which `…` matches any text.
"""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

DAY_0_MS = int(datetime(2026, 11, 29, tzinfo=UTC).timestamp()) * 1_000
DAY_MS = 86_400_000
ORG = "acme"

_CLOCK = r"(?:\d+d )?\d\d:\d\d(?::\d\d(?:\.\d{3})?)?"
_RANGE = re.compile(rf"({_CLOCK})\.\.({_CLOCK}) (.+)")
_SINGLE = re.compile(rf"(?:({_CLOCK}) )?(.+)")
_EVERY = re.compile(r"(.+) every (\d+)(ms|s|m|h)")
_UNIT_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000}


class Act(NamedTuple):
    """One record or setting of a timeline; `words[0]` is the verb."""

    at: int
    org_id: str
    words: list[str]


@dataclass
class Step:
    """Acts that are sent together, and the expected outputs and state."""

    line: int
    acts: list[Act]
    sent: list[str] = field(default_factory=list)
    state: list[tuple[int, str]] = field(default_factory=list)


def to_ms(clock: str) -> int:
    """Convert `1d 12:00:00.250` to ms since 1970."""
    day, _, clock = clock.rpartition("d ")
    hours, minutes, *rest = clock.split(":")
    seconds, _, thousandths = (rest[0] if rest else "0").partition(".")
    in_day = ((int(hours) * 60 + int(minutes)) * 60 + int(seconds)) * 1_000 + int(thousandths or 0)
    return DAY_0_MS + int(day or 0) * DAY_MS + in_day


def to_clock(at: int) -> str:
    """Convert ms since 1970 to the shortest form that `to_ms` accepts."""
    day, in_day = divmod(at - DAY_0_MS, DAY_MS)
    seconds, thousandths = divmod(in_day, 1_000)
    minutes, seconds = divmod(seconds, 60)
    text = f"{minutes // 60:02}:{minutes % 60:02}"
    if seconds or thousandths:
        text += f":{seconds:02}"
    if thousandths:
        text += f".{thousandths:03}"
    return f"{day}d {text}" if day else text


def read(path: Path) -> list[Step]:
    """Return the steps of a timeline's file."""
    steps: list[Step] = []
    for number, raw in enumerate(path.read_text().splitlines(), start=1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        if line.startswith("> "):
            steps[-1].sent.append(line[2:])
        elif line.startswith("? "):
            steps[-1].state.append((number, line[2:]))
        elif line.startswith("& "):
            steps[-1].acts += acts(line[2:], steps[-1].acts[-1].at)
        else:
            steps.append(Step(number, list(acts(line))))
    return steps


def acts(line: str, at: int | None = None) -> Iterator[Act]:
    """Yield the acts of one line; `at` is their time if the line has none."""
    if many := _RANGE.fullmatch(line):
        # Within a topic the offset decides, so these are written in order of their times.
        yield from sorted(_many(to_ms(many[1]), to_ms(many[2]), many[3]), key=lambda act: act.at)
        return
    single = _SINGLE.fullmatch(line)
    assert single
    moment = to_ms(single[1]) if single[1] else at
    assert moment is not None, f"{line!r} has no time"
    yield _act(moment, single[2])


def _many(first: int, last: int, text: str) -> Iterator[Act]:
    for part in text.split("; "):
        every = _EVERY.fullmatch(part)
        assert every, f"{part!r} has no period"
        period = int(every[2]) * _UNIT_MS[every[3]]
        for n, moment in enumerate(range(-(-first // period) * period, last + 1, period), start=1):
            yield _act(moment, every[1].replace("{n}", str(n)))


def _act(at: int, text: str) -> Act:
    words = shlex.split(text)
    org_id = words.pop(0)[:-1] if words[0].endswith(":") else ORG
    return Act(at, org_id, words)
