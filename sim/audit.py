"""Compare the figures of the web views with the usage events that Croesus received."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from schemas.base import Json
from sim.stage import Stage
from sim.views import Views, items

_FIGURES = ("running_ms", "billed_ms", "pending_ms", "forgiven_ms", "overbilled_ms")


@dataclass(slots=True)
class OrgFigures:
    """Totals of an org's windows, in ms (B12)."""

    windows: int = 0
    running_ms: int = 0
    billed_ms: int = 0
    pending_ms: int = 0
    forgiven_ms: int = 0
    overbilled_ms: int = 0

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
    """The figures of each org, and a line for each problem found."""

    orgs: dict[str, OrgFigures] = field(default_factory=dict)
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
    """Check each window for conservation (B12) and against its usage events, and report what Croesus refused.

    `stage` must have received all outputs, and no record may be applied meanwhile.
    """
    sent: Counter[tuple[str, str]] = Counter()
    for _, usage in stage.memory.usage:
        sent[usage.org_id, usage.window_id] += usage.duration_ms
    credited: Counter[tuple[str, str]] = Counter()
    for credit in stage.memory.credits:
        credited[credit.org_id, credit.window_id] += credit.duration_ms
    found = Audit()
    for org in orgs:
        figures = found.orgs[org] = OrgFigures()
        for window in windows_of(views, org):
            figures.add(window)
            name = f"window {window['window_id']} of {org}"
            single = OrgFigures()
            single.add(window)
            if single.unexplained_ms:
                found.problems.append(f"{name}: {single.unexplained_ms} ms of running time are unexplained")
            back = credited.pop((org, window["window_id"]), 0)
            if back != window["credited_ms"]:
                found.problems.append(f"{name}: {window['credited_ms']} ms credited, but {back} ms sent to Croesus")
            billed = sent.pop((org, window["window_id"]), 0)
            if billed != window["billed_ms"]:
                found.problems.append(f"{name}: {window['billed_ms']} ms billed, but {billed} ms sent to Croesus")
    found.problems += [f"{org}: {ms} ms sent for {window}, which no view shows" for (org, window), ms in sent.items()]
    found.problems += [
        f"{org}: {ms} ms credited for {window}, which no view shows" for (org, window), ms in credited.items()
    ]
    found.problems += stage.croesus.refusals
    found.problems += [f"dead letter: {letter.decode(errors='replace')[:300]}" for letter in stage.memory.dead]
    if duplicates := stage.croesus.verdicts["duplicate"]:
        found.problems.append(f"{duplicates} duplicate usage events")
    return found
