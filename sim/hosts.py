"""Stand-in hosts: they execute `host.orders` and send reports. Each instance has its own behavior.

Pure and seeded, as `sim.execlets`. A host executes an order once, at `attempt` 1, or at a later attempt if its behavior
is to ignore the first ones.
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
"""The minimum time from an order to the first report about it."""

_MESSAGES: Final[dict[OtherReportName, str]] = {
    "start_refused": "the host has no room for the container",
    "start_unreachable": "the host does not answer",
    "gpus_unavailable": "the GPUs are in use by someone else",
    "workload_failed": "the container exited with 1",
    "workload_lost": "the host lost sight of the container",
    "workload_completed": "the command exited with 0",
    "workload_gone": "the container is no longer on the machine",
}


@dataclass(frozen=True, slots=True)
class Behavior:
    """How a host treats an instance. Durations are in s; attempts count as in `host.orders`."""

    launch: Launch = "up"
    launch_s: int = 90
    ending: Ending = "none"
    end_after_s: int = 0
    """From `workload_up` to the ending."""
    found_after_s: int | None = None
    """From `workload_lost` to `found_running`; None: never."""
    ignored_stops: int = 0
    """How many attempts of a stop are ignored."""
    stop_s: int = 12
    gone_after_s: int | None = None
    """From `stop_confirmed` to `workload_gone`; None: never."""
    resumes: tuple[Resume, ...] = ()
    """The outcomes of the first starts; later starts succeed."""
    resume_s: int = 40
    ignored_destroys: int = 0
    teardown_s: int = 15


BehaviorChoice: TypeAlias = Callable[[HostOrder, Random], Behavior]
"""Chooses the behavior for the instance of an order."""


_OUTCOMES: Final[dict[str, int]] = {
    "normal": 72,
    "launch fails": 3,
    "launch never reaches host": 1,
    "lost in launch": 1,
    "completes": 4,
    "fails": 2,
    "is lost": 2,
    "is lost and found": 2,
    "ignores stops": 3,
    "gone while stopped": 2,
    "odd start": 6,
    "ignores destroys": 2,
}
"""Outcomes of instances without a script, with their weights."""

_ODD_STARTS: Final[tuple[Resume, ...]] = ("start_refused", "start_unreachable", "gpus_unavailable", "silent")


def seeded(_: HostOrder, rng: Random) -> Behavior:
    """Choose a random behavior. Most hosts behave normally; others fail, refuse, ignore orders or lose workloads."""
    behavior = Behavior(launch_s=rng.randint(20, 300), stop_s=rng.randint(3, 90), teardown_s=rng.randint(3, 120))
    after_s, attempts = rng.randint(300, 14_400), rng.randint(1, 12)
    odd: dict[str, dict[str, Any]] = {
        "launch fails": {"launch": "fails"},
        "launch never reaches host": {"launch": "never_reaches_host"},
        "lost in launch": {"launch": "lost"},
        "completes": {"ending": "workload_completed", "end_after_s": after_s},
        "fails": {"ending": "workload_failed", "end_after_s": after_s},
        "is lost": {"ending": "workload_lost", "end_after_s": after_s},
        "is lost and found": {"ending": "workload_lost", "end_after_s": after_s, "found_after_s": 90 * attempts},
        "ignores stops": {"ignored_stops": attempts},
        "gone while stopped": {"gone_after_s": after_s},
        "odd start": {"resumes": (rng.choice(_ODD_STARTS),)},
        "ignores destroys": {"ignored_destroys": attempts},
    }
    outcome = rng.choices(list(_OUTCOMES), list(_OUTCOMES.values()))[0]
    return replace(behavior, **odd.get(outcome, {}))


@dataclass(slots=True)
class _HostedInstance:
    """A host's state of one instance."""

    behavior: Behavior
    rng: Random
    resumes: Iterator[Resume]
    reports: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    answered: str | None = None
    """The order that was executed last, or is being executed."""


class Hosts:
    """All hosts: they execute orders, and add the resulting reports to the agenda."""

    def __init__(self, seed: int, agenda: Agenda, choose_behavior: BehaviorChoice = seeded) -> None:
        self._seed = seed
        self._agenda = agenda
        self._choose_behavior = choose_behavior
        self._instances: dict[tuple[str, str], _HostedInstance] = {}

    def execute(self, order: HostOrder, now_ms: int) -> None:
        """Execute an order read at `now_ms`; its reports are later."""
        if order.order == "release_gpus":
            return
        instance = self._instance(order)
        behavior = instance.behavior
        ignored = {"stop": behavior.ignored_stops, "destroy": behavior.ignored_destroys}.get(order.order, 0)
        if order.attempt == 1:
            instance.answered = None
        if order.attempt <= ignored or instance.answered == order.order:
            return
        instance.answered = order.order
        reports = {"create": _launch, "start": _resume, "stop": _stop, "destroy": _teardown}[order.order]
        start_ms = now_ms + LATENCY_MS + instance.rng.randrange(3 * SECOND_MS)
        self._agenda.add(f"instance/{order.org_id}/{order.instance_id}", reports(order, instance, start_ms))

    def _instance(self, order: HostOrder) -> _HostedInstance:
        key = (order.org_id, order.instance_id)
        instance = self._instances.get(key)
        if instance is None:
            rng = Random(f"{self._seed}/{order.org_id}/{order.instance_id}")
            behavior = self._choose_behavior(order, rng)
            instance = self._instances[key] = _HostedInstance(behavior, rng, resumes=iter(behavior.resumes))
        return instance


def _report(order: HostOrder, instance: _HostedInstance, at_ms: int, name: OtherReportName) -> Record:
    return report(at_ms, order.org_id, order.instance_id, next(instance.reports), name, _MESSAGES.get(name))


def _launch(order: HostOrder, instance: _HostedInstance, start_ms: int) -> Iterator[Record]:
    behavior = instance.behavior
    at = start_ms + behavior.launch_s * SECOND_MS
    if behavior.launch in ("fails", "never_reaches_host"):
        reached = behavior.launch == "fails"
        message = "manifest unknown: no such tag" if reached else "no route to the host"
        yield launch_failed(at, order.org_id, order.instance_id, next(instance.reports), message, reached_host=reached)
    elif behavior.launch == "lost":
        yield _report(order, instance, at, "workload_lost")
    else:
        yield _report(order, instance, at, "workload_up")
        yield from _up(order, instance, at)


def _up(order: HostOrder, instance: _HostedInstance, up_ms: int) -> Iterator[Record]:
    behavior = instance.behavior
    if behavior.ending == "none":
        return
    at = up_ms + behavior.end_after_s * SECOND_MS
    yield _report(order, instance, at, behavior.ending)
    if behavior.ending == "workload_lost" and behavior.found_after_s is not None:
        yield _report(order, instance, at + behavior.found_after_s * SECOND_MS, "found_running")


def _resume(order: HostOrder, instance: _HostedInstance, start_ms: int) -> Iterator[Record]:
    outcome: Resume = next(instance.resumes, "up")
    at = start_ms + instance.behavior.resume_s * SECOND_MS
    if outcome == "up":
        yield _report(order, instance, at, "workload_up")
        yield from _up(order, instance, at)
    elif outcome != "silent":
        yield _report(order, instance, at, outcome)


def _stop(order: HostOrder, instance: _HostedInstance, start_ms: int) -> Iterator[Record]:
    at = start_ms + instance.behavior.stop_s * SECOND_MS
    yield _report(order, instance, at, "stop_confirmed")
    if instance.behavior.gone_after_s is not None:
        yield _report(order, instance, at + instance.behavior.gone_after_s * SECOND_MS, "workload_gone")


def _teardown(order: HostOrder, instance: _HostedInstance, start_ms: int) -> Iterator[Record]:
    yield _report(order, instance, start_ms + instance.behavior.teardown_s * SECOND_MS, "teardown_finished")
