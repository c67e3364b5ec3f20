"""Compare the figures of the web views with the stand-in Croesus's ledger."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TypeAlias

from schemas.base import Json
from schemas.times import rfc3339
from sim.croesus import Charge, Croesus, Sums
from sim.stage import Stage
from sim.views import Views, items

Key: TypeAlias = tuple[str, ...]

_FIGURES = ("running_ms", "billed_ms", "pending_ms", "forgiven_ms", "overbilled_ms", "credited_ms")


@dataclass(slots=True)
class OrgFigures:
    """Totals of an org's windows, in ms (B12, B13)."""

    windows: int = 0
    running_ms: int = 0
    billed_ms: int = 0
    pending_ms: int = 0
    forgiven_ms: int = 0
    overbilled_ms: int = 0
    credited_ms: int = 0

    def add(self, window: Json) -> None:
        """Add one window of a view."""
        self.windows += 1
        for name in _FIGURES:
            setattr(self, name, getattr(self, name) + window[name])

    @property
    def unexplained_ms(self) -> int:
        """The difference from conservation (B12); anything but 0 is an error."""
        return self.running_ms - self.billed_ms - self.pending_ms - self.forgiven_ms + self.overbilled_ms


@dataclass(slots=True)
class Audit:
    """The figures of each org, the number of sums by day that were compared, and a line for each problem found."""

    orgs: dict[str, OrgFigures] = field(default_factory=dict)
    day_sums: int = 0
    problems: list[str] = field(default_factory=list)

    @property
    def total(self) -> OrgFigures:
        """The totals of all orgs."""
        total = OrgFigures()
        for figures in self.orgs.values():
            for name in ("windows", *_FIGURES):
                setattr(total, name, getattr(total, name) + getattr(figures, name))
        return total


def windows_of(views: Views, org: str) -> list[Json]:
    """Return all windows of an org."""
    windows: list[Json] = []
    for deployment in items(views, f"/orgs/{org}/deployments"):
        for replica in deployment["replicas"]:
            windows += views.get(f"/orgs/{org}/replicas/{replica['replica_id']}")["windows"]
    for instance in items(views, f"/orgs/{org}/instances?include_destroyed=true"):
        windows += instance["windows"]
    return windows


def audit(orgs: Iterable[str], views: Views, stage: Stage) -> Audit:
    """Compare each window, and each day's usage (U1), with the ledger, and report what Croesus refused.

    `stage` must have received all outputs, and no record may be applied meanwhile.
    """
    windows = _ledger(stage.croesus, lambda charge: (charge.org_id, charge.window_id))
    days = _ledger(stage.croesus, _day_of)
    found = Audit()
    for org in orgs:
        figures = found.orgs[org] = OrgFigures()
        for window in windows_of(views, org):
            figures.add(window)
            found.problems += _window_problems(org, window, windows.pop((org, window["window_id"]), Sums()))
        for day in items(views, f"/orgs/{org}/usage"):
            found.day_sums += 1
            key = (org, day["day"], day["type"], day["profile"])
            found.problems += _day_problems(key, day, days.pop(key, Sums()))
    found.problems += [
        f"{org}: {sums.billed_ms} ms billed and {sums.credited_ms} ms credited in the ledger for {window}, which no "
        f"view shows"
        for (org, window), sums in windows.items()
    ]
    found.problems += [
        f"usage of {' '.join(key)}: {sums.cost} in the ledger, which no view shows" for key, sums in days.items()
    ]
    found.problems += stage.croesus.refusals
    found.problems += [f"dead letter: {letter.decode(errors='replace')[:300]}" for letter in stage.memory.dead]
    if duplicates := stage.croesus.verdicts["duplicate"]:
        found.problems.append(f"{duplicates} duplicate usage events")
    return found


def _ledger(croesus: Croesus, key_of: Callable[[Charge], Key]) -> dict[Key, Sums]:
    """Return the lines of the ledger added up by a key."""
    sums: dict[Key, Sums] = defaultdict(Sums)
    for charge in croesus.charges.values():
        sums[key_of(charge)].add(charge)
    return sums


def _day_of(charge: Charge) -> Key:
    return charge.org_id, rfc3339(charge.start_ms)[:10], charge.type, charge.profile


def _window_problems(org: str, window: Json, sums: Sums) -> Iterator[str]:
    name = f"window {window['window_id']} of {org}"
    single = OrgFigures()
    single.add(window)
    if single.unexplained_ms:
        yield f"{name}: {single.unexplained_ms} ms of running time are unexplained"
    yield from _differences(name, window, {"billed_ms": sums.billed_ms, "credited_ms": sums.credited_ms})


def _day_problems(key: Key, day: Json, sums: Sums) -> Iterator[str]:
    shown = {**day, "cost": Decimal(day["cost"]), "credited_cost": Decimal(day["credited_cost"])}
    names = ("billed_unit_ms", "credited_unit_ms", "cost", "credited_cost")
    yield from _differences(f"usage of {' '.join(key)}", shown, {name: getattr(sums, name) for name in names})


def _differences(name: str, shown: Json, booked: Json) -> Iterator[str]:
    for figure, value in booked.items():
        if shown[figure] != value:
            yield f"{name}: {figure} is {shown[figure]}, but {value} in Croesus's ledger"
