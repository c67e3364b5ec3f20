"""What a run prints at its end, and writes as JSON."""

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
_WORDS = {True: "[green]yes[/green]", False: "[red]no[/red]", None: ""}


def number(value: float) -> str:
    """Write a number as people read it: whole from a hundred on, three digits below."""
    return f"{value:,.0f}" if abs(value) >= _WHOLE_FROM else f"{value:.3g}"


def target(figure: Figure) -> str:
    """Write a target; a blank for none."""
    if figure.target is None:
        return ""
    return f"{'≥' if figure.better == 'more' else '≤'} {number(figure.target)}"


def table(figures: Sequence[Figure], title: str) -> Table:
    """Show all figures, part by part."""
    shown = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left")
    for heading in ("part", "figure"):
        shown.add_column(heading)
    for heading in ("value", "unit", "target", "met"):
        shown.add_column(heading, justify="right" if heading != "unit" else "left")
    part = None
    for figure in figures:
        if part is not None and figure.part != part:
            shown.add_section()
        shown.add_row(
            escape(figure.part) if figure.part != part else "",
            escape(figure.name),
            number(figure.value),
            escape(figure.unit),
            target(figure),
            _WORDS[figure.met],
        )
        part = figure.part
    return shown


def machine() -> dict[str, Any]:
    """Say what a run that is about to start runs on."""
    return {
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "load before": round(os.getloadavg()[0], 1),
        "system": platform.platform(terse=True),
        "python": platform.python_version(),
        "faust-streaming": version("faust-streaming"),
        "aiokafka": version("aiokafka"),
    }


def _cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def to_json(figures: Sequence[Figure], sizes: Sizes, about: dict[str, Any]) -> str:
    """Write everything, for programs."""
    found = [{**asdict(figure), "met": figure.met} for figure in figures]
    return json.dumps({"machine": about, "sizes": asdict(sizes), "figures": found}, indent=2) + "\n"
