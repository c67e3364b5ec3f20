"""Stand-in hosts: they take `host.orders` and report, each instance with a temper of its own.

Pure and seeded, as `sim.lives`. A host answers an order once for each time that the order is given anew (`attempt` 1),
and on a later attempt where its temper says that it was deaf to the first ones.
"""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, Final, Literal, TypeAlias

from schemas.orders import HostOrder
from schemas.reports import OtherReportName
from sim.agenda import Agenda
from sim.records import SECOND_MS, Record, launch_failed, report

Launch: TypeAlias = Literal["up", "fails", "never_reaches_host", "lost"]
Resume: TypeAlias = Literal["up", "start_refused", "start_unreachable", "gpus_unavailable", "silent"]
Ending: TypeAlias = Literal["none", "workload_completed", "workload_failed", "workload_lost"]

LATENCY_MS: Final = 1_500
"""From an order to the first report about it, at least."""

_WORDS: Final[dict[OtherReportName, str]] = {
    "start_refused": "the host has no room for the container",
    "start_unreachable": "the host does not answer",
    "gpus_unavailable": "the GPUs are in use by someone else",
    "workload_failed": "the container exited with 1",
    "workload_lost": "the host lost sight of the container",
    "workload_completed": "the command exited with 0",
    "workload_gone": "the container is no longer on the machine",
}


@dataclass(frozen=True, slots=True)
class Temper:
    """What a host will do with an instance. Durations in s; attempts count as in `host.orders`."""

    launch: Launch = "up"
    launch_s: int = 90
    ending: Ending = "none"
    end_after_s: int = 0
    """From "up" to the ending."""
    found_after_s: int | None = None
    """From `workload_lost` until the workload is found running after all; none: never."""
    deaf_stops: int = 0
    """Attempts of a stop that are not heard."""
    stop_s: int = 12
    gone_after_s: int | None = None
    """From `stop_confirmed` until the container turns out to be gone; none: never."""
    resumes: tuple[Resume, ...] = ()
    """How the first starts go; later ones come up."""
    resume_s: int = 40
    deaf_destroys: int = 0
    teardown_s: int = 15


Casting: TypeAlias = Callable[[HostOrder, Random], Temper]
"""Chooses the temper of the host towards the instance that an order is about."""


_FATES: Final[dict[str, int]] = {
    "obeys": 72,
    "launch fails": 3,
    "launch never reaches host": 1,
    "lost in launch": 1,
    "completes": 4,
    "fails": 2,
    "is lost": 2,
    "is lost and found": 2,
    "deaf to stops": 3,
    "gone while stopped": 2,
    "odd start": 6,
    "deaf to destroys": 2,
}
"""What becomes of an instance without a script: of 100, so many."""

_ODD_STARTS: Final[tuple[Resume, ...]] = ("start_refused", "start_unreachable", "gpus_unavailable", "silent")


def seeded(_: HostOrder, rng: Random) -> Temper:
    """Most hosts do as they are told; the others fail, refuse, are deaf for a while, lose or end something."""
    temper = Temper(launch_s=rng.randint(20, 300), stop_s=rng.randint(3, 90), teardown_s=rng.randint(3, 120))
    after_s, attempts = rng.randint(300, 14_400), rng.randint(1, 12)
    odd: dict[str, dict[str, Any]] = {
        "launch fails": {"launch": "fails"},
        "launch never reaches host": {"launch": "never_reaches_host"},
        "lost in launch": {"launch": "lost"},
        "completes": {"ending": "workload_completed", "end_after_s": after_s},
        "fails": {"ending": "workload_failed", "end_after_s": after_s},
        "is lost": {"ending": "workload_lost", "end_after_s": after_s},
        "is lost and found": {"ending": "workload_lost", "end_after_s": after_s, "found_after_s": 90 * attempts},
        "deaf to stops": {"deaf_stops": attempts},
        "gone while stopped": {"gone_after_s": after_s},
        "odd start": {"resumes": (rng.choice(_ODD_STARTS),)},
        "deaf to destroys": {"deaf_destroys": attempts},
    }
    fate = rng.choices(list(_FATES), list(_FATES.values()))[0]
    return replace(temper, **odd.get(fate, {}))


@dataclass(slots=True)
class _Slice:
    """What a host remembers of one instance."""

    temper: Temper
    rng: Random
    resumes: Iterator[Resume]
    reports: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    answered: str | None = None
    """The order whose answer is given or under way."""


class Hosts:
    """Every host of a marketplace: takes orders and puts the reports that follow on the agenda."""

    def __init__(self, seed: int, agenda: Agenda, casting: Casting = seeded) -> None:
        self._seed = seed
        self._agenda = agenda
        self._casting = casting
        self._slices: dict[tuple[str, str], _Slice] = {}

    def obey(self, order: HostOrder, now_ms: int) -> None:
        """Take an order that is read at `now_ms`; reports about it come later than that."""
        if order.order == "release_gpus":
            return
        held = self._slice(order)
        deaf = {"stop": held.temper.deaf_stops, "destroy": held.temper.deaf_destroys}.get(order.order, 0)
        if order.attempt == 1:
            held.answered = None
        if order.attempt <= deaf or held.answered == order.order:
            return
        held.answered = order.order
        answer = {"create": _launch, "start": _resume, "stop": _stop, "destroy": _teardown}[order.order]
        start_ms = now_ms + LATENCY_MS + held.rng.randrange(3 * SECOND_MS)
        self._agenda.add(f"instance/{order.org_id}/{order.instance_id}", answer(order, held, start_ms))

    def _slice(self, order: HostOrder) -> _Slice:
        key = (order.org_id, order.instance_id)
        held = self._slices.get(key)
        if held is None:
            rng = Random(f"{self._seed}/{order.org_id}/{order.instance_id}")
            temper = self._casting(order, rng)
            held = self._slices[key] = _Slice(temper, rng, resumes=iter(temper.resumes))
        return held


def _report(order: HostOrder, held: _Slice, at_ms: int, name: OtherReportName) -> Record:
    return report(at_ms, order.org_id, order.instance_id, next(held.reports), name, _WORDS.get(name))


def _launch(order: HostOrder, held: _Slice, start_ms: int) -> Iterator[Record]:
    temper = held.temper
    at = start_ms + temper.launch_s * SECOND_MS
    if temper.launch in ("fails", "never_reaches_host"):
        reached = temper.launch == "fails"
        words = "manifest unknown: no such tag" if reached else "no route to the host"
        yield launch_failed(at, order.org_id, order.instance_id, next(held.reports), words, reached_host=reached)
    elif temper.launch == "lost":
        yield _report(order, held, at, "workload_lost")
    else:
        yield _report(order, held, at, "workload_up")
        yield from _up(order, held, at)


def _up(order: HostOrder, held: _Slice, up_ms: int) -> Iterator[Record]:
    temper = held.temper
    if temper.ending == "none":
        return
    at = up_ms + temper.end_after_s * SECOND_MS
    yield _report(order, held, at, temper.ending)
    if temper.ending == "workload_lost" and temper.found_after_s is not None:
        yield _report(order, held, at + temper.found_after_s * SECOND_MS, "found_running")


def _resume(order: HostOrder, held: _Slice, start_ms: int) -> Iterator[Record]:
    outcome: Resume = next(held.resumes, "up")
    at = start_ms + held.temper.resume_s * SECOND_MS
    if outcome == "up":
        yield _report(order, held, at, "workload_up")
        yield from _up(order, held, at)
    elif outcome != "silent":
        yield _report(order, held, at, outcome)


def _stop(order: HostOrder, held: _Slice, start_ms: int) -> Iterator[Record]:
    at = start_ms + held.temper.stop_s * SECOND_MS
    yield _report(order, held, at, "stop_confirmed")
    if held.temper.gone_after_s is not None:
        yield _report(order, held, at + held.temper.gone_after_s * SECOND_MS, "workload_gone")


def _teardown(order: HostOrder, held: _Slice, start_ms: int) -> Iterator[Record]:
    yield _report(order, held, start_ms + held.temper.teardown_s * SECOND_MS, "teardown_finished")
