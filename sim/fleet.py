"""A fleet's log over a stretch of time, all of it known beforehand: for tests and benchmarks."""

from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Final

from schemas.orders import ExecletOrder
from sim import hosts, lives, users
from sim.agenda import Agenda, Life
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
    beat_s: int = 30,
    duplicates: float = 0.0,
    late: float = 0.0,
    billing: bool = True,
) -> Iterator[Record]:
    """Write a fleet's log from `start_ms`, a whole minute, for `hours`: in order of time, the same for the same input.

    `deployments` (default: one for five replicas) share `replicas` first replicas. Prices come a minute before the
    start, balances at it; ticks 2 s after each minute, one per partition. `duplicates` is the share of commands,
    callbacks and reports that come twice; `late` the share of callbacks, reports and heartbeats whose timestamp lies
    up to 90 s before that of the record they follow (then the order of time is broken there). `billing` is the
    worker's `DEDICATED_BILLING_ENABLED`. Raises ValueError for sizes that no fleet of the contract can have.
    """
    if start_ms % MINUTE_MS:
        msg = f"start_ms is {start_ms}, not a whole minute; the nearest before is {start_ms - start_ms % MINUTE_MS}"
        raise ValueError(msg)
    end_ms = start_ms + int(hours * 60) * MINUTE_MS
    agenda = Agenda()
    execlets = lives.Execlets(seed, agenda, lives.seeded(beat_s))
    machines = hosts.Hosts(seed, agenda)
    foresight = Foresight(billing=billing)
    troubles = _Troubles(Random(f"{seed}/troubles"), duplicates, late)

    def obey(orders: Iterator[Order], now_ms: int) -> None:
        for order in orders:
            if isinstance(order, ExecletOrder):
                execlets.obey(order, now_ms)
            else:
                machines.obey(order, now_ms)

    for name, life in _lives(seed, orgs, deployments, replicas, instances, start_ms, end_ms):
        agenda.add(name, life)
    for tick_ms in range(start_ms + TICK_DELAY_MS, end_ms + TICK_DELAY_MS + 1, MINUTE_MS):
        # At one ms a tick comes last: its topic has the lowest rank.
        for record in agenda.until(tick_ms + 1):
            obey(foresight.read(record), record.timestamp_ms)
            yield troubles.befall(record, agenda)
        obey(foresight.tick(tick_ms), tick_ms)
        for partition in range(partitions):
            yield tick(tick_ms, partition)


def _lives(
    seed: int, orgs: int, deployments: int | None, replicas: int, instances: int, start_ms: int, end_ms: int
) -> Iterator[tuple[str, Life]]:
    yield "prices", _prices(start_ms, end_ms)
    for org in users.org_names(orgs):
        yield f"account/{org}", _account(seed, org, start_ms, end_ms, has_instances=instances > 0)
    deployments = -(-replicas // 5) if deployments is None else deployments
    for plan in users.plan_deployments(seed, orgs, deployments, replicas, start_ms=start_ms, end_ms=end_ms):
        yield f"deployment/{plan.org}/{plan.name}", users.commands_of(plan)
        yield f"requests/{plan.org}/{plan.name}", users.requests_of(plan, end_ms)
    for moves in users.plan_instances(seed, orgs, instances, start_ms=start_ms, end_ms=end_ms):
        yield f"moves/{moves.org}/{moves.name}", users.moves_of(moves)


class _Troubles:
    """What happens to records on their way: some come twice, some with a time of before."""

    def __init__(self, rng: Random, duplicates: float, late: float) -> None:
        self._rng = rng
        self._duplicates = duplicates
        self._late = late
        self._copied: set[bytes | None] = set()

    def befall(self, record: Record, agenda: Agenda) -> Record:
        if record.topic in _COPIED and record.value not in self._copied and self._rng.random() < self._duplicates:
            self._copied.add(record.value)
            copy = replace(record, timestamp_ms=record.timestamp_ms + self._rng.randrange(20_000))
            agenda.add(f"copy/{len(self._copied)}", iter((copy,)))
        if record.topic in _DELAYED and self._rng.random() < self._late:
            return replace(record, timestamp_ms=record.timestamp_ms - self._rng.randrange(90_000))
        return record


def _prices(start_ms: int, end_ms: int) -> Iterator[Record]:
    """All prices, then a rise, and a profile that has no price for a fifth of the time (after the last create)."""
    before_ms, span_ms = start_ms - MINUTE_MS, end_ms - start_ms
    for profile, amount in users.PRICES.items():
        yield price(before_ms, profile, amount)
    yield price(start_ms + int(span_ms * 0.5), "dedicated.l40s.4x", None)
    yield price(start_ms + int(span_ms * 0.6), "dedicated.h100.1x", "465.125")
    yield price(start_ms + int(span_ms * 0.7), "dedicated.l40s.4x", users.PRICES["dedicated.l40s.4x"])


def _account(seed: int, org: str, start_ms: int, end_ms: int, *, has_instances: bool) -> Iterator[Record]:
    """Money enough; one org in 33 is suspended for a while, one in 20 with instances runs dry and tops up."""
    rng = Random(f"{seed}/account/{org}")
    yield balance(start_ms, org, ENOUGH, 1)
    fate, at = rng.random(), start_ms + int((end_ms - start_ms) * rng.uniform(0.4, 0.7))
    pause_ms = int(rng.uniform(0.1, 0.5) * HOUR_MS)
    if fate < SUSPENDED_SHARE:
        yield suspended(at, org)
        yield reinstated(at + pause_ms, org)
    elif fate < SUSPENDED_SHARE + DRY_SHARE and has_instances:
        yield balance(at, org, EMPTY, 2)
        yield balance(at + pause_ms, org, ENOUGH, 3)
