"""Progress of a run: bars on a terminal, lines elsewhere."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from bench.figures import Figure
from bench.report import number

_LINE_EVERY_S = 10


class Show:
    """Shows progress on stderr; stdout is for the report."""

    def __init__(self) -> None:
        self.console = Console(stderr=True)

    def part(self, title: str) -> None:
        """Print the title of a part."""
        self.console.print(f"[bold]{escape(title)}[/bold]", soft_wrap=True)

    def line(self, text: str) -> None:
        """Print a line of a part."""
        self.console.print(f"  {escape(text)}", soft_wrap=True)

    def figure(self, figure: Figure) -> None:
        """Print a figure."""
        self.console.print(f"  {escape(figure.name)}: {number(figure.value)} {escape(figure.unit)}")

    @contextmanager
    def counting(self, label: str, total: int) -> Iterator[Callable[[int], None]]:
        """Show how much of `total` is done. Call the yielded function with each step."""
        if not self.console.is_terminal:
            yield from self._lines(label, total)
            return
        columns = (TextColumn("  {task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        with Progress(*columns, console=self.console, transient=True) as progress:
            task = progress.add_task(label, total=total)
            yield lambda step: progress.advance(task, step)

    @contextmanager
    def waiting(self, label: str) -> Iterator[None]:
        """Show the elapsed time of a step."""
        if not self.console.is_terminal:
            self.console.print(f"  {escape(label)} …")
            yield
            return
        columns = (TextColumn("  {task.description}"), BarColumn(), TimeElapsedColumn())
        with Progress(*columns, console=self.console, transient=True) as progress:
            progress.add_task(label, total=None)
            yield

    def _lines(self, label: str, total: int) -> Iterator[Callable[[int], None]]:
        done, printed_s = 0, time.monotonic()
        self.console.print(f"  {escape(label)} …")

        def advance(step: int) -> None:
            nonlocal done, printed_s
            done += step
            if time.monotonic() >= printed_s + _LINE_EVERY_S:
                printed_s = time.monotonic()
                self.console.print(f"  {escape(label)}: {done:,} of {total:,}")

        yield advance
