"""Counting a partition's rows: windows by condition, entities by state, and whether every millisecond is explained."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from streams.billing.windows import Figures, Held, Window, figures
from streams.lifecycle.deployment import DeploymentStatus
from streams.lifecycle.instance import InstanceState
from streams.lifecycle.replica import ReplicaStatus
from streams.metrics.source import Shard, Source
from streams.rules.charging import held

SLICE: Final = 2_000
"""Rows counted before others get a turn: a few milliseconds."""

CONDITIONS: Final = ("open", "paused", "unpriced", "billing_off", "dry_run", "closed_unfinished")

_HELD: Final = {
    Held.UNPRICED: "unpriced",
    Held.BILLING_OFF: "billing_off",
    Held.DRY_RUN: "dry_run",
    Held.NO_HEARTBEAT: "paused",
}


def _zeros(words: type[DeploymentStatus | ReplicaStatus | InstanceState]) -> Counter[str]:
    return Counter({word.value: 0 for word in words})


@dataclass(slots=True)
class Census:
    """The count of one partition. Each window stands under one condition, so the conditions add up to all.

    `figures`: the sums of `Figures`, in the order of its fields.
    """

    orgs: int = 0
    windows: Counter[str] = field(default_factory=lambda: Counter(dict.fromkeys(CONDITIONS, 0)))
    figures: list[int] = field(default_factory=lambda: [0] * len(Figures._fields))
    unexplained_ms: int = 0
    unexplained_windows: int = 0
    deployments: Counter[str] = field(default_factory=lambda: _zeros(DeploymentStatus))
    replicas: Counter[str] = field(default_factory=lambda: _zeros(ReplicaStatus))
    instances: Counter[str] = field(default_factory=lambda: _zeros(InstanceState))

    def add_time(self, window: Window, as_of_ms: int) -> None:
        """Count a window's time; unexplained time of two windows never cancels out."""
        # Written out: there may be a million windows, and nothing else here is done once for each.
        running, billed, pending, forgiven, overbilled = figures(window, as_of_ms)
        sums = self.figures
        sums[0] += running
        sums[1] += billed
        sums[2] += pending
        sums[3] += forgiven
        sums[4] += overbilled
        unexplained = running - billed - pending - forgiven + overbilled
        if unexplained:
            self.unexplained_ms += abs(unexplained)
            self.unexplained_windows += 1


def count(shard: Shard, source: Source, census: Census) -> Iterator[None]:
    """Count all rows of `shard` into `census`, giving way after every slice.

    Rows may change in between: each window is judged at one instant, the sum of them is of nearly one.
    """
    as_of_ms = shard.as_of or 0
    left = SLICE
    for book in list(shard.book.orgs.values()):
        census.orgs += 1
        census.deployments.update(row.status.value for row in book.deployments.values())
        census.instances.update(row.state.value for row in book.instances.values())
        left -= len(book.deployments) + len(book.instances) + 1
        for replica in list(book.replicas.values()):
            census.replicas[replica.status.value] += 1
            left -= 1
            if left <= 0:
                yield
                left = SLICE
        unfinished = [*book.due_dedicated, *book.due_metered]
        known = set(map(id, unfinished))
        for window in unfinished:
            census.windows[condition(window, source, as_of_ms)] += 1
            census.add_time(window, as_of_ms)
            left -= 1
            if left <= 0:
                yield
                left = SLICE
        for window in [row for row in book.closed.values() if id(row) not in known]:
            census.add_time(window, as_of_ms)
            left -= 1
            if left <= 0:
                yield
                left = SLICE


def condition(window: Window, source: Source, as_of_ms: int) -> str:
    """Where an unfinished window stands: held for a reason, paused, open, or closed with something left to bill."""
    why = held(window, source.prices, source.switches, as_of_ms)
    if why is not None:
        return _HELD[why]
    return "open" if window.ended_at is None else "closed_unfinished"
