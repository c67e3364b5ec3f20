"""What a run has found."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Literal

Better = Literal["more", "less"]


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured number. `target` is what it is held against, where there is one: more of it is better, or less."""

    part: str
    name: str
    value: float
    unit: str
    target: float | None = None
    better: Better = "more"

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None without one."""
        if self.target is None:
            return None
        return self.value >= self.target if self.better == "more" else self.value <= self.target


@dataclass(frozen=True, slots=True)
class Sample:
    """Work that a process has done: `count` of something in `wall_s`, at `cpu_s` of its CPU time."""

    count: int
    wall_s: float
    cpu_s: float

    @property
    def per_s(self) -> float:
        """How many a second."""
        return self.count / self.wall_s

    @property
    def per_cpu_s(self) -> float:
        """How many in a second of CPU time."""
        return self.count / self.cpu_s

    @property
    def cpu_s_per_million(self) -> float:
        """Seconds of CPU time that a million take."""
        return self.cpu_s * 1_000_000 / self.count


def typical(samples: Sequence[Sample]) -> Sample:
    """Give the median of each, of samples of one kind of work."""
    return Sample(
        round(median(sample.count for sample in samples)),
        median(sample.wall_s for sample in samples),
        median(sample.cpu_s for sample in samples),
    )


@dataclass(slots=True)
class Findings:
    """All figures, in the order in which they were found."""

    figures: list[Figure] = field(default_factory=list)

    def add(self, figure: Figure) -> None:
        """Note a figure."""
        self.figures.append(figure)

    def value(self, part: str, name: str) -> float:
        """Give a figure found before. Raises `KeyError`."""
        for figure in self.figures:
            if (figure.part, figure.name) == (part, name):
                return figure.value
        raise KeyError(part, name)
