"""Runs a timeline, and compares its outputs and rows with those in its file."""

import re
from collections.abc import Sequence
from difflib import ndiff
from pathlib import Path

from streams.rules.context import Switches
from tests.world.checks import check_outputs, check_rows
from tests.world.records import TOPIC_OF, record
from tests.world.timeline import ORG, Step, read
from tests.world.words import by_kind, describe_step, plain
from tests.world.world import Mode, World

ANY = "…"
_MORE = re.compile(rf"{ANY} (\d+) more")


class Scenario:
    """One run of a timeline."""

    def __init__(self, path: Path, mode: Mode) -> None:
        self.path = path
        self.world = World(mode)

    def play(self) -> None:
        """Run all steps."""
        for step in read(self.path):
            try:
                self._play(step)
                check_rows(self.world)
            except BaseException as error:
                error.add_note(f"{self.path.name}:{step.line}")
                raise
        check_outputs(self.world.all_sent)

    def _play(self, step: Step) -> None:
        settings = [act for act in step.acts if act.words[0] not in TOPIC_OF]
        for act in settings:
            self._set(act.words)
        sent = self.world.take([record(act, self.world.numbers) for act in step.acts if act not in settings])
        times = {act.at for act in step.acts}
        assert {message.timestamp for message in sent} <= times, "an output has the time of no record"
        expected, found = compared(by_kind(step.sent), describe_step(self.world))
        difference = "\n".join(ndiff(expected, found))
        assert found == expected, f"- expected, + found:\n{difference}"
        for line, question in step.state:
            subject, _, wanted = question.partition(": ")
            found_state = self._state(subject, wanted)
            assert fits(wanted, found_state), f"line {line}:\n- {wanted}\n+ {found_state}"

    def _set(self, words: list[str]) -> None:
        match words:
            case ["billing", "on"]:
                self.world.set(Switches(billing_enabled=True))
            case ["billing", "off"]:
                self.world.set(Switches(billing_enabled=False))
            case ["billing", "on", "dry-run"]:
                self.world.set(Switches(billing_enabled=True, dry_run=True))
            case ["billing", "off", "dry-run"]:
                self.world.set(Switches(billing_enabled=False, dry_run=True))
            case ["retention", hours]:
                self.world.set(retention_h=int(hours.removesuffix("h")))
            case ["restart"]:
                self.world.restart()
            case _:
                msg = f"unknown words: {words}"
                raise AssertionError(msg)

    def _state(self, subject: str, wanted: str) -> str:
        kind, *rest = subject.split()
        sent = [each.value for each in self.world.all_sent]
        if kind == "message":
            return str([value["message"] for value in sent if value.get("command_id") == rest[0]][-1])
        if kind == "usage":
            events = [value for value in sent if value.get("window_id") == rest[0]]
            return f"events={len(events)} ms={sum(event['duration_ms'] for event in events)}"
        org_id, _, row_id = (rest[0] if rest else "").rpartition("/")
        view = self.world.find(kind, row_id, org_id or ORG)
        if view is None:
            return "gone"
        names = [pair.partition("=")[0] for pair in wanted.split()] if wanted != "gone" else []
        return " ".join(f"{name}={plain(view[name])}" for name in names)


def fits(wanted: str, found: str) -> bool:
    """Return whether `found` is `wanted`, in which `…` matches any text."""
    return re.fullmatch(".*".join(map(re.escape, wanted.split(ANY))), found, re.DOTALL) is not None


def compared(wanted: Sequence[str], found: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return both for comparison: a line that matches one with `…` is replaced by it, and n lines match `… n more`."""
    written = [line for line in wanted if not _MORE.fullmatch(line)]
    left = list(found)
    if len(written) == len(wanted):
        fitted = [line if fits(line, one) else one for line, one in zip(written, left, strict=False)]
        return written, fitted + left[len(fitted) :]
    missing = []
    for line in written:
        fitting = next((one for one in left if fits(line, one)), None)
        if fitting is None:
            missing.append(line)
        else:
            left.remove(fitting)
    (more,) = set(wanted) - set(written)
    return [*missing, more], [f"{ANY} {len(left)} more"] if not missing else left
