"""The log of a fleet over a period of time, generated without a running Obol, for tests and benchmarks."""

from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Final

from schemas.orders import ExecletOrder
from sim import execlets, hosts, users
from sim.agenda import Actor, Agenda
from sim.foresight import Foresight, Order
from sim.records import (
    HOUR_MS,
    MINUTE_MS,
    TICK_DELAY_MS,
    Record,
    balance,
    price,
    reinstated,
    suspended,
    tick,
)
from topics import catalogue

ENOUGH: Final = "100000000"
EMPTY: Final = "-1.5"
SUSPENDED_SHARE: Final = 0.03
DRY_SHARE: Final = 0.05

_COPIED: Final = (catalogue.COMMANDS.name, catalogue.PROGRESS.name, catalogue.REPORTS.name)
_DELAYED: Final = (catalogue.PROGRESS.name, catalogue.REPORTS.name, catalogue.HEARTBEATS.name)


def timeline(  # noqa: PLR0913 - a fleet has that many sizes
    seed: int,
    orgs: int,
    replicas: int,
    start_ms: int,
    hours: float,
    *,
    deployments: int | None = None,
    instances: int = 0,
    partitions: int = 8,
    heartbeat_s: int = 30,
    duplicates: float = 0.0,
    late: float = 0.0,
    billing: bool = True,
) -> Iterator[Record]:
    """Yield the log of a fleet from `start_ms`, a whole minute, for `hours`, in order of time. It is deterministic.

    `replicas`: initial replicas, shared by `deployments` (default: one per five replicas). Prices are a minute before
    the start, balances at the start, ticks 2 s after each minute in each partition. `duplicates`: the share of
    commands, callbacks and reports that occur twice. `late`: the share of callbacks, reports and heartbeats with a
    timestamp up to 90 s too early, which breaks the order of time. `billing`: the worker's `DEDICATED_BILLING_ENABLED`.
    Raises `ValueError` for impossible sizes.
    """
    if start_ms % MINUTE_MS:
        msg = f"start_ms is {start_ms}, not a whole minute; the nearest before is {start_ms - start_ms % MINUTE_MS}"
        raise ValueError(msg)
    end_ms = start_ms + int(hours * 60) * MINUTE_MS
    agenda = Agenda()
    fleet_execlets = execlets.Execlets(seed, agenda, execlets.seeded(heartbeat_s))
    fleet_hosts = hosts.Hosts(seed, agenda)
    foresight = Foresight(billing=billing)
    disturbances = _Disturbances(Random(f"{seed}/troubles"), duplicates, late)

    def execute(orders: Iterator[Order], now_ms: int) -> None:
        for order in orders:
            if isinstance(order, ExecletOrder):
                fleet_execlets.execute(order, now_ms)
            else:
                fleet_hosts.execute(order, now_ms)

    for name, actor in _actors(seed, orgs, deployments, replicas, instances, start_ms, end_ms):
        agenda.add(name, actor)
    for tick_ms in range(start_ms + TICK_DELAY_MS, end_ms + TICK_DELAY_MS + 1, MINUTE_MS):
        # At equal timestamps a tick is applied last, since its topic has the lowest rank.
        for record in agenda.until(tick_ms + 1):
            execute(foresight.read(record), record.timestamp_ms)
            yield disturbances.apply(record, agenda)
        execute(foresight.tick(tick_ms), tick_ms)
        for partition in range(partitions):
            yield tick(tick_ms, partition)


def _actors(
    seed: int, orgs: int, deployments: int | None, replicas: int, instances: int, start_ms: int, end_ms: int
) -> Iterator[tuple[str, Actor]]:
    yield "prices", _prices(start_ms, end_ms)
    for org in users.org_names(orgs):
        yield f"account/{org}", _account(seed, org, start_ms, end_ms, has_instances=instances > 0)
    deployments = -(-replicas // 5) if deployments is None else deployments
    for plan in users.plan_deployments(seed, orgs, deployments, replicas, start_ms=start_ms, end_ms=end_ms):
        yield f"deployment/{plan.org}/{plan.name}", users.deployment_commands(plan)
        yield f"requests/{plan.org}/{plan.name}", users.deployment_requests(plan, end_ms)
    for actions in users.plan_instances(seed, orgs, instances, start_ms=start_ms, end_ms=end_ms):
        yield f"actions/{actions.org}/{actions.name}", users.instance_commands(actions)


class _Disturbances:
    """Duplicates some records and gives others an earlier timestamp."""

    def __init__(self, rng: Random, duplicates: float, late: float) -> None:
        self._rng = rng
        self._duplicates = duplicates
        self._late = late
        self._copied: set[bytes | None] = set()

    def apply(self, record: Record, agenda: Agenda) -> Record:
        if record.topic in _COPIED and record.value not in self._copied and self._rng.random() < self._duplicates:
            self._copied.add(record.value)
            copy = replace(record, timestamp_ms=record.timestamp_ms + self._rng.randrange(20_000))
            agenda.add(f"copy/{len(self._copied)}", iter((copy,)))
        if record.topic in _DELAYED and self._rng.random() < self._late:
            return replace(record, timestamp_ms=record.timestamp_ms - self._rng.randrange(90_000))
        return record


def _prices(start_ms: int, end_ms: int) -> Iterator[Record]:
    """Yield all prices; later an increase, and a profile without a price for a fifth of the time."""
    before_ms, span_ms = start_ms - MINUTE_MS, end_ms - start_ms
    for profile, amount in users.PRICES.items():
        yield price(before_ms, profile, amount)
    yield price(start_ms + int(span_ms * 0.5), "dedicated.l40s.4x", None)
    yield price(start_ms + int(span_ms * 0.6), "dedicated.h100.1x", "465.125")
    yield price(start_ms + int(span_ms * 0.7), "dedicated.l40s.4x", users.PRICES["dedicated.l40s.4x"])


def _account(seed: int, org: str, start_ms: int, end_ms: int, *, has_instances: bool) -> Iterator[Record]:
    """Yield sufficient balances; 3 % of the orgs are suspended for a while, 5 % with instances use up their balance."""
    rng = Random(f"{seed}/account/{org}")
    yield balance(start_ms, org, ENOUGH, 1)
    outcome, at = rng.random(), start_ms + int((end_ms - start_ms) * rng.uniform(0.4, 0.7))
    pause_ms = int(rng.uniform(0.1, 0.5) * HOUR_MS)
    if outcome < SUSPENDED_SHARE:
        yield suspended(at, org)
        yield reinstated(at + pause_ms, org)
    elif outcome < SUSPENDED_SHARE + DRY_SHARE and has_instances:
        yield balance(at, org, EMPTY, 2)
        yield balance(at + pause_ms, org, ENOUGH, 3)
