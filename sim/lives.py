"""Stand-in execlets: they take `execlet.orders` and live the lives of the replicas they were given.

Pure and seeded: what a replica does follows from the seed, its org and its id, never from a clock.
"""

import heapq
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from operator import attrgetter
from random import Random
from typing import Final, Literal, TypeAlias

from schemas.orders import ExecletOrder
from schemas.progress import ProgressStatus
from sim.agenda import Agenda
from sim.records import SECOND_MS, Record, heartbeat, progress

Ending: TypeAlias = Literal["none", "image", "init", "crash", "vm_crash"]
"""How a life ends: never · `FAILED` while pulling · `FAILED` while initing · `SYSTEM_FAILURE` · `VM_CRASH`."""

LATENCY_MS: Final = 1_500
"""From an order to the first thing that is heard of it, at least."""


@dataclass(frozen=True, slots=True)
class Temper:
    """What a replica will go through. Durations in s; `*_after_s` count from its first "healthy"."""

    pull_s: int = 30
    init_s: int = 20
    ending: Ending = "none"
    end_after_s: int = 0
    silent_after_s: int | None = None
    silent_for_s: int | None = None
    """None: for good."""
    restart_after_s: int | None = None
    restart_takes_s: int = 75
    beat_s: int = 30


Casting: TypeAlias = Callable[[ExecletOrder, Random], Temper]
"""Chooses the temper of the replica that an order is about."""


_FATES: Final = {"quiet": 85, "restarts": 4, "pauses": 3, "crashes": 3, "vm crashes": 2, "node dies": 2, "never up": 1}
"""What becomes of a replica without a script: of 100, so many."""


def seeded(beat_s: int = 30) -> Casting:
    """Most live quietly; the others crash, go silent, pause their heartbeats, restart or never come up."""

    def cast(_: ExecletOrder, rng: Random) -> Temper:
        temper = Temper(pull_s=rng.randint(5, 240), init_s=rng.randint(8, 150), beat_s=beat_s)
        after_s = rng.randint(120, 5_400)
        match rng.choices(list(_FATES), list(_FATES.values()))[0]:
            case "restarts":
                return replace(temper, restart_after_s=after_s, restart_takes_s=rng.randint(20, 200))
            case "pauses":
                return replace(temper, silent_after_s=after_s, silent_for_s=rng.randint(100, 1_500))
            case "crashes":
                return replace(temper, ending="crash", end_after_s=after_s)
            case "node dies" | "vm crashes" as fate:
                silent_s = rng.randint(300, 3_600) if fate == "node dies" else 0
                temper = replace(temper, ending="vm_crash", end_after_s=after_s + silent_s)
                return replace(temper, silent_after_s=after_s if silent_s else None)
            case "never up":
                return replace(temper, ending=rng.choice(("image", "init")))
            case _:
                return temper

    return cast


def replica_life(order: ExecletOrder, start_ms: int, temper: Temper, rng: Random) -> Iterator[Record]:
    """Live one replica's life: pulling, initing, healthy, heartbeats every `beat_s`, and the ending."""
    numbers = itertools.count(1)

    def call(at_ms: int, status: ProgressStatus, message: str) -> Record:
        return progress(at_ms, order.org_id, order.replica_id, next(numbers), status, message)

    at = start_ms
    yield call(at, "STARTING", f"Pulling image for {order.model}")
    at += temper.pull_s * SECOND_MS
    if temper.ending == "image":
        yield call(at, "FAILED", "manifest unknown: no such tag")
        return
    yield call(at, "STARTING", "Model server is starting")
    at += temper.init_s * SECOND_MS
    if temper.ending == "init":
        yield call(at, "FAILED", "model server exited with 1 while loading weights")
        return
    yield call(at, "RUNNING", "Containers healthy")
    calls = (call(*step) for step in _steps(at, temper))
    yield from heapq.merge(calls, _beats(at, order, temper, rng), key=attrgetter("timestamp_ms"))


def _steps(healthy_ms: int, temper: Temper) -> list[tuple[int, ProgressStatus, str]]:
    steps: list[tuple[int, ProgressStatus, str]] = []
    if temper.restart_after_s is not None:
        down = healthy_ms + temper.restart_after_s * SECOND_MS
        steps.append((down, "RESTARTING", "Container restarts"))
        steps.append((down + temper.restart_takes_s * SECOND_MS, "RUNNING", "Containers healthy"))
    end = healthy_ms + temper.end_after_s * SECOND_MS
    if temper.ending == "crash":
        steps = [*(step for step in steps if step[0] < end), (end, "SYSTEM_FAILURE", "Container exited with 137")]
    elif temper.ending == "vm_crash":
        steps = [*(step for step in steps if step[0] < end), (end, "VM_CRASH", "No contact with the VM")]
    return steps


def _beats(healthy_ms: int, order: ExecletOrder, temper: Temper, rng: Random) -> Iterator[Record]:
    """Beat from `healthy_ms` on, each replica at a phase of its own, but for restarts, silences and after the end."""
    beat_ms = temper.beat_s * SECOND_MS
    for at in itertools.count(healthy_ms + 1 + rng.randrange(beat_ms), beat_ms):
        since_s = (at - healthy_ms) / SECOND_MS
        if temper.ending in ("crash", "vm_crash") and since_s >= temper.end_after_s:
            return
        if temper.silent_after_s is not None and since_s > temper.silent_after_s:
            if temper.silent_for_s is None:
                return
            if since_s < temper.silent_after_s + temper.silent_for_s:
                continue
        if temper.restart_after_s is not None and 0 <= since_s - temper.restart_after_s < temper.restart_takes_s:
            continue
        yield heartbeat(at, order.org_id, order.replica_id)


class Execlets:
    """Every execlet of a fleet: gives each submitted replica a life on the agenda, and ends it when told to."""

    def __init__(self, seed: int, agenda: Agenda, casting: Casting) -> None:
        self._seed = seed
        self._agenda = agenda
        self._casting = casting

    def obey(self, order: ExecletOrder, now_ms: int) -> None:
        """Take an order that is read at `now_ms`; what it leads to comes later than that."""
        name = f"replica/{order.org_id}/{order.replica_id}"
        if order.order == "abort_job":
            self._agenda.cancel(name)
            return
        rng = Random(f"{self._seed}/{order.org_id}/{order.replica_id}")
        temper = self._casting(order, rng)
        start_ms = now_ms + LATENCY_MS + rng.randrange(3 * SECOND_MS)
        self._agenda.add(name, replica_life(order, start_ms, temper, rng))
