"""The results of a run."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Literal

from bench.child import BenchError

Better = Literal["more", "less"]


@dataclass(frozen=True, slots=True)
class Figure:
    """A measured number. `target`: what it is compared with. `better`: whether more or less is better.

    `span`: the least and the greatest of several measurements, of which `value` is the median.
    """

    part: str
    name: str
    value: float
    unit: str
    target: float | None = None
    better: Better = "more"
    span: tuple[float, float] | None = None

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None without a target."""
        if self.target is None:
            return None
        return self.value >= self.target if self.better == "more" else self.value <= self.target


@dataclass(frozen=True, slots=True)
class Sample:
    """Work of a process: `count` items in `wall_s` elapsed seconds, with `cpu_s` seconds of CPU time."""

    count: int
    wall_s: float
    cpu_s: float

    @property
    def per_s(self) -> float:
        """Items per second. Raises `BenchError` if all were committed at once, so that nothing was measured."""
        if not self.count or not self.wall_s:
            raise BenchError("all records were committed at once: too few to measure a rate")
        return self.count / self.wall_s

    @property
    def per_cpu_s(self) -> float:
        """Items per second of CPU time."""
        return self.count / self.cpu_s

    @property
    def cpu_s_per_million(self) -> float:
        """CPU seconds per million items."""
        return self.cpu_s * 1_000_000 / self.count


def typical(samples: Sequence[Sample]) -> Sample:
    """Return the medians of samples of the same kind."""
    return Sample(
        round(median(sample.count for sample in samples)),
        median(sample.wall_s for sample in samples),
        median(sample.cpu_s for sample in samples),
    )


@dataclass(slots=True)
class Figures:
    """All figures, in the order of measurement."""

    figures: list[Figure] = field(default_factory=list)

    def add(self, figure: Figure) -> None:
        """Add a figure."""
        self.figures.append(figure)

    def value(self, part: str, name: str) -> float:
        """Return the value of a figure. Raises `KeyError`."""
        for figure in self.figures:
            if (figure.part, figure.name) == (part, name):
                return figure.value
        raise KeyError(part, name)
