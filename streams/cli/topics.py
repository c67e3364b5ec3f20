"""`obol topics …`: create, check and list the topics."""

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
_JSON = Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")]


class _ProgressHandler(logging.Handler):
    """Shows the latest log message in the progress line."""

    def __init__(self, bar: Progress, task: TaskID) -> None:
        super().__init__(logging.INFO)
        self._bar = bar
        self._task = task

    def emit(self, record: logging.LogRecord) -> None:
        """Show the message."""
        self._bar.update(self._task, description=record.getMessage())


@app.command("create")
def create(timeout: _TIMEOUT = 60) -> None:
    """Create the missing topics, and check the others. Existing topics are never changed."""
    before = run(partition_counts(settings()))
    _provision("creating topics", timeout)
    created = [settings().topic(name) for name in TOPICS if name not in before]
    console = out()
    for name in created:
        console.print(f"created {name}")
    console.print(f"{len(TOPICS)} topics exist and match the settings, {len(created)} of them new")


@app.command("check")
def check(timeout: _TIMEOUT = 10) -> None:
    """Check that every topic exists and matches the settings; exit code 1 if not."""
    counts = run(partition_counts(settings()))
    if missing := [settings().topic(name) for name in TOPICS if name not in counts]:
        msg = f"missing topics: {', '.join(missing)}; run `obol topics create`, or correct OBOL_NAMESPACE"
        raise Failure(msg)
    _provision("checking topics", timeout)
    out().print(f"{len(TOPICS)} topics exist and match the settings")


def _provision(doing: str, timeout_s: float) -> None:
    log = logging.getLogger("topics.provision")
    with progress(counted=False) as bar:
        handler = _ProgressHandler(bar, bar.add_task(doing, total=None))
        log.addHandler(handler)
        log.setLevel(logging.INFO)
        try:
            run(provision(settings(), deadline_s=timeout_s))
        except ProvisionError as error:
            raise Failure(str(error)) from error
        finally:
            log.removeHandler(handler)


@app.command("list")
def list_(as_json: _JSON = False) -> None:  # noqa: FBT002 - an option, given by name
    """List every topic: its name with the namespace, its partition count, and its purpose."""
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
