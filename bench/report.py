"""The report of a run, as a table and as JSON."""

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich import box
from rich.markup import escape
from rich.table import Table

from bench.figures import Figure
from bench.sizes import Sizes

_WHOLE_FROM = 100
_MET = {True: "[green]yes[/green]", False: "[red]no[/red]", None: ""}


def number(value: float) -> str:
    """Format a number: without decimals from a hundred on, with three digits below."""
    return f"{value:,.0f}" if abs(value) >= _WHOLE_FROM else f"{value:.3g}"


def target(figure: Figure) -> str:
    """Format a target; blank if there is none."""
    if figure.target is None:
        return ""
    return f"{'≥' if figure.better == 'more' else '≤'} {number(figure.target)}"


def span(figure: Figure) -> str:
    """Format a range; blank if there is none."""
    return f"{number(figure.span[0])} – {number(figure.span[1])}" if figure.span else ""


def table(figures: Sequence[Figure], title: str) -> Table:
    """Return a table of all figures."""
    result = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left")
    for heading in ("part", "figure"):
        result.add_column(heading)
    has_spans = any(figure.span for figure in figures)
    for heading in ("value", "unit", *(["range"] if has_spans else []), "target", "met"):
        result.add_column(heading, justify="right" if heading != "unit" else "left")
    part = None
    for figure in figures:
        if part is not None and figure.part != part:
            result.add_section()
        result.add_row(
            escape(figure.part) if figure.part != part else "",
            escape(figure.name),
            number(figure.value),
            escape(figure.unit),
            *([span(figure)] if has_spans else []),
            target(figure),
            _MET[figure.met],
        )
        part = figure.part
    return result


def machine() -> dict[str, Any]:
    """Return a description of the machine and its load."""
    return {
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "load before": round(os.getloadavg()[0], 1),
        "system": platform.platform(terse=True),
        "python": platform.python_version(),
        "faust-streaming": version("faust-streaming"),
        "aiokafka": version("aiokafka"),
    }


def machine_line(about: dict[str, Any]) -> str:
    """Return the description of a machine in one line."""
    return f"{about['cores']} cores ({about['cpu']}), load {about['load before']} before, Python {about['python']}"


def _cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def to_json(figures: Sequence[Figure], sizes: Sizes, about: dict[str, Any]) -> str:
    """Return the figures, sizes and machine as JSON."""
    found = [{**asdict(figure), "met": figure.met} for figure in figures]
    return json.dumps({"machine": about, "sizes": asdict(sizes), "figures": found}, indent=2) + "\n"
