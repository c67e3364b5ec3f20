"""Stand-in execlets: they execute `execlet.orders` and send the callbacks and heartbeats of replicas.

Pure and seeded: what a replica does depends on the seed, its org and its id, never on a clock.
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
"""How a replica ends: not · `FAILED` while pulling · `FAILED` while initing · `SYSTEM_FAILURE` · `VM_CRASH`."""

LATENCY_MS: Final = 1_500
"""The minimum time from an order to the first callback."""


@dataclass(frozen=True, slots=True)
class Behavior:
    """How a replica behaves. Durations are in s; `*_after_s` count from its first "healthy"."""

    pull_s: int = 30
    init_s: int = 20
    ending: Ending = "none"
    end_after_s: int = 0
    silent_after_s: int | None = None
    silent_for_s: int | None = None
    """None: for ever."""
    restart_after_s: int | None = None
    restart_takes_s: int = 75
    heartbeat_s: int = 30


BehaviorChoice: TypeAlias = Callable[[ExecletOrder, Random], Behavior]
"""Chooses the behavior for the replica of an order."""


_OUTCOMES: Final = {
    "normal": 85,
    "restarts": 4,
    "pauses": 3,
    "crashes": 3,
    "vm crashes": 2,
    "node dies": 2,
    "never up": 1,
}
"""Outcomes of replicas without a script, with their weights."""


def seeded(heartbeat_s: int = 30) -> BehaviorChoice:
    """Return a random choice of behavior. Most replicas run normally; others crash, restart, fail or fall silent."""

    def choose(_: ExecletOrder, rng: Random) -> Behavior:
        behavior = Behavior(pull_s=rng.randint(5, 240), init_s=rng.randint(8, 150), heartbeat_s=heartbeat_s)
        after_s = rng.randint(120, 5_400)
        match rng.choices(list(_OUTCOMES), list(_OUTCOMES.values()))[0]:
            case "restarts":
                return replace(behavior, restart_after_s=after_s, restart_takes_s=rng.randint(20, 200))
            case "pauses":
                return replace(behavior, silent_after_s=after_s, silent_for_s=rng.randint(100, 1_500))
            case "crashes":
                return replace(behavior, ending="crash", end_after_s=after_s)
            case "node dies" | "vm crashes" as outcome:
                silent_s = rng.randint(300, 3_600) if outcome == "node dies" else 0
                behavior = replace(behavior, ending="vm_crash", end_after_s=after_s + silent_s)
                return replace(behavior, silent_after_s=after_s if silent_s else None)
            case "never up":
                return replace(behavior, ending=rng.choice(("image", "init")))
            case _:
                return behavior

    return choose


def replica_actor(order: ExecletOrder, start_ms: int, behavior: Behavior, rng: Random) -> Iterator[Record]:
    """Yield the records of one replica: pulling, initing, healthy, heartbeats every `heartbeat_s`, and the ending."""
    numbers = itertools.count(1)

    def call(at_ms: int, status: ProgressStatus, message: str) -> Record:
        return progress(at_ms, order.org_id, order.replica_id, next(numbers), status, message)

    at = start_ms
    yield call(at, "STARTING", f"Pulling image for {order.model}")
    at += behavior.pull_s * SECOND_MS
    if behavior.ending == "image":
        yield call(at, "FAILED", "manifest unknown: no such tag")
        return
    yield call(at, "STARTING", "Model server is starting")
    at += behavior.init_s * SECOND_MS
    if behavior.ending == "init":
        yield call(at, "FAILED", "model server exited with 1 while loading weights")
        return
    yield call(at, "RUNNING", "Containers healthy")
    calls = (call(*step) for step in _steps(at, behavior))
    yield from heapq.merge(calls, _heartbeats(at, order, behavior, rng), key=attrgetter("timestamp_ms"))


def _steps(healthy_ms: int, behavior: Behavior) -> list[tuple[int, ProgressStatus, str]]:
    steps: list[tuple[int, ProgressStatus, str]] = []
    if behavior.restart_after_s is not None:
        down = healthy_ms + behavior.restart_after_s * SECOND_MS
        steps.append((down, "RESTARTING", "Container restarts"))
        steps.append((down + behavior.restart_takes_s * SECOND_MS, "RUNNING", "Containers healthy"))
    end = healthy_ms + behavior.end_after_s * SECOND_MS
    if behavior.ending == "crash":
        steps = [*(step for step in steps if step[0] < end), (end, "SYSTEM_FAILURE", "Container exited with 137")]
    elif behavior.ending == "vm_crash":
        steps = [*(step for step in steps if step[0] < end), (end, "VM_CRASH", "No contact with the VM")]
    return steps


def _heartbeats(healthy_ms: int, order: ExecletOrder, behavior: Behavior, rng: Random) -> Iterator[Record]:
    """Yield heartbeats from `healthy_ms` on, with a random phase, but not in restarts and silences or after the end."""
    heartbeat_ms = behavior.heartbeat_s * SECOND_MS
    for at in itertools.count(healthy_ms + 1 + rng.randrange(heartbeat_ms), heartbeat_ms):
        since_s = (at - healthy_ms) / SECOND_MS
        if behavior.ending in ("crash", "vm_crash") and since_s >= behavior.end_after_s:
            return
        if behavior.silent_after_s is not None and since_s > behavior.silent_after_s:
            if behavior.silent_for_s is None:
                return
            if since_s < behavior.silent_after_s + behavior.silent_for_s:
                continue
        if behavior.restart_after_s is not None and 0 <= since_s - behavior.restart_after_s < behavior.restart_takes_s:
            continue
        yield heartbeat(at, order.org_id, order.replica_id)


class Execlets:
    """All execlets: they add an actor to the agenda for each submitted replica, and remove it on abort."""

    def __init__(self, seed: int, agenda: Agenda, choose_behavior: BehaviorChoice) -> None:
        self._seed = seed
        self._agenda = agenda
        self._choose_behavior = choose_behavior

    def execute(self, order: ExecletOrder, now_ms: int) -> None:
        """Execute an order read at `now_ms`; its records are later."""
        name = f"replica/{order.org_id}/{order.replica_id}"
        if order.order == "abort_job":
            self._agenda.cancel(name)
            return
        rng = Random(f"{self._seed}/{order.org_id}/{order.replica_id}")
        behavior = self._choose_behavior(order, rng)
        start_ms = now_ms + LATENCY_MS + rng.randrange(3 * SECOND_MS)
        self._agenda.add(name, replica_actor(order, start_ms, behavior, rng))
