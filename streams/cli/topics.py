"""`obol topics …`: make them, check them, see them."""

import json
import logging
from typing import Annotated

import typer
from rich import box
from rich.progress import Progress, TaskID
from rich.table import Table

from streams.cli.cluster import partition_counts
from streams.cli.context import out, progress, run, settings
from streams.cli.failure import Failure
from streams.cli.groups import group
from topics.catalogue import TOPICS
from topics.provision import ProvisionError, provision

app = group("The topics of this installation.")

_TIMEOUT = Annotated[float, typer.Option(min=1, help="Seconds to wait for the cluster.")]
_JSON = Annotated[bool, typer.Option("--json", help="A JSON object a line.")]


class _Told(logging.Handler):
    """Puts the latest word of the work into the line of progress."""

    def __init__(self, bar: Progress, task: TaskID) -> None:
        super().__init__(logging.INFO)
        self._bar = bar
        self._task = task

    def emit(self, record: logging.LogRecord) -> None:
        """Show it."""
        self._bar.update(self._task, description=record.getMessage())


@app.command("create")
def create(timeout: _TIMEOUT = 60) -> None:
    """Make the topics that are missing, and check the others; what is there is never changed."""
    before = run(partition_counts(settings()))
    _provision("making topics", timeout)
    made = [settings().topic(name) for name in TOPICS if name not in before]
    console = out()
    for name in made:
        console.print(f"made {name}")
    console.print(f"{len(TOPICS)} topics are there and as the settings say, {len(made)} of them new")


@app.command("check")
def check(timeout: _TIMEOUT = 10) -> None:
    """Check that every topic is there and as the settings say; exit code 1 when one is not."""
    counts = run(partition_counts(settings()))
    if missing := [settings().topic(name) for name in TOPICS if name not in counts]:
        raise Failure(f"missing: {', '.join(missing)}; make them with `obol topics create`, or correct OBOL_NAMESPACE")
    _provision("checking topics", timeout)
    out().print(f"{len(TOPICS)} topics are there and as the settings say")


def _provision(doing: str, timeout_s: float) -> None:
    log = logging.getLogger("topics.provision")
    with progress(counted=False) as bar:
        told = _Told(bar, bar.add_task(doing, total=None))
        log.addHandler(told)
        log.setLevel(logging.INFO)
        try:
            run(provision(settings(), deadline_s=timeout_s))
        except ProvisionError as error:
            raise Failure(str(error)) from error
        finally:
            log.removeHandler(told)


@app.command("list")
def list_(as_json: _JSON = False) -> None:  # noqa: FBT002 - an option, given by name
    """List every topic of the contract: its full name, its partitions here, and what it is for."""
    counts = run(partition_counts(settings()))
    console = out()
    rows = [
        {
            "topic": settings().topic(spec.name),
            "direction": spec.direction,
            "partitions": counts.get(spec.name),
            "key": spec.key.replace("`", ""),
            "summary": spec.summary,
        }
        for spec in TOPICS.values()
    ]
    if as_json:
        for row in rows:
            console.out(json.dumps(row, ensure_ascii=False), highlight=False)
        return
    table = Table("topic", "", "partitions", "summary", box=box.SIMPLE_HEAD, pad_edge=False)
    for row in rows:
        partitions = "missing" if row["partitions"] is None else str(row["partitions"])
        table.add_row(str(row["topic"]), str(row["direction"]), partitions, str(row["summary"]))
    console.print(table, soft_wrap=False)
