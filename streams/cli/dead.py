"""`obol dead …`: list dead letters, and replay them once the cause is fixed."""

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, get_args

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from schemas.base import Json
from schemas.dead_letters import DeadLetterReason
from streams.cli.context import now_ms, out, run, settings
from streams.cli.dead_letters import DeadLetterRecord
from streams.cli.failure import EXIT_USAGE, Failure
from streams.cli.groups import group
from streams.cli.replay import Filter, ReplayPlan, plan_replay, read_dead_letters, replay
from streams.cli.text import parse_time, printable, time_text
from topics.catalogue import INBOUND

app = group("List and replay dead letters, the records that could not be applied.")

_REASON = Annotated[str | None, typer.Option(help=f"Only this reason: {', '.join(get_args(DeadLetterReason))}.")]
_TOPIC = Annotated[str | None, typer.Option(help="Only from this topic (name without the namespace).")]
_PARTITION = Annotated[int | None, typer.Option(min=0, help="Only from this partition.")]
_OFFSET = Annotated[int | None, typer.Option(min=0, help="Only the record at this offset of its topic.")]
_ORG = Annotated[
    str | None, typer.Option("--org", "--org-id", help="Only of this organisation, where the value can be parsed.")
]
_SINCE = Annotated[str | None, typer.Option(help="Start at this time: RFC 3339, ms since 1970, or an age such as 10m.")]
_JSON = Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")]
_DRY = Annotated[bool, typer.Option("--dry-run", help="Show what would be sent, and send nothing.")]
_ALL = Annotated[bool, typer.Option("--all", help="Required to replay without a filter.")]
_AGAIN = Annotated[bool, typer.Option("--again", help="Also send records that were replayed before.")]


def _filter(
    reason: str | None,
    topic: str | None,
    partition: int | None,
    offset: int | None,
    org: str | None,
    since: str | None,
) -> Filter:
    reasons, topics = get_args(DeadLetterReason), [spec.name for spec in INBOUND]
    if reason is not None and reason not in reasons:
        raise Failure(f"--reason {printable(reason)!r} is not one of {', '.join(reasons)}", EXIT_USAGE)
    if topic is not None and topic not in topics:
        raise Failure(f"--topic {printable(topic)!r} is not one of {', '.join(topics)}", EXIT_USAGE)
    since_ms = None if since is None else parse_time(since, "--since", now_ms)
    return Filter(reason=reason, topic=topic, partition=partition, offset=offset, org_id=org, since_ms=since_ms)


@app.command("list")
def list_(
    reason: _REASON = None,
    topic: _TOPIC = None,
    partition: _PARTITION = None,
    offset: _OFFSET = None,
    org: _ORG = None,
    since: _SINCE = None,
    as_json: _JSON = False,  # noqa: FBT002 - an option, given by name
) -> None:
    """List dead letters: each record's topic, partition and offset, and why it could not be applied."""
    dead_letters = run(read_dead_letters(settings(), _filter(reason, topic, partition, offset, org, since)))
    console = out()
    if as_json:
        for letter in dead_letters:
            console.out(printable(json.dumps(_as_json(letter), ensure_ascii=False)), highlight=False)
        return
    _print(console, dead_letters, {})
    console.print(_count(len(dead_letters), "dead letter"))


@app.command("replay")
def replay_(  # noqa: PLR0913, PLR0917 - an argument an option
    reason: _REASON = None,
    topic: _TOPIC = None,
    partition: _PARTITION = None,
    offset: _OFFSET = None,
    org: _ORG = None,
    since: _SINCE = None,
    dry_run: _DRY = False,  # noqa: FBT002 - an option, given by name
    everything: _ALL = False,  # noqa: FBT002
    again: _AGAIN = False,  # noqa: FBT002
) -> None:
    """Send the records of dead letters again, byte for byte, to their topics and partitions, once the cause is fixed.

    All are sent in one transaction, each with the header obol-replayed. Records that were replayed before, or were cut
    at 64 KiB, are skipped. With OBOL_TIMESTAMPS=producer records keep their timestamps; otherwise the broker sets new
    ones.
    """
    selection = _filter(reason, topic, partition, offset, org, since)
    if selection.is_empty and not everything:
        msg = "select what to replay with --reason, --topic, …, or use --all; --dry-run shows what would be sent"
        raise Failure(msg, EXIT_USAGE)
    plan = run(_plan(selection, again=again) if dry_run else replay(settings(), selection, again=again))
    _report(out(), plan, dry_run=dry_run)
    if plan.truncated:
        raise typer.Exit(1)


async def _plan(selection: Filter, *, again: bool) -> ReplayPlan:
    return await plan_replay(settings(), await read_dead_letters(settings(), selection), again=again)


def _report(console: Console, plan: ReplayPlan, *, dry_run: bool) -> None:
    outcomes = {
        **dict.fromkeys(plan.ready, "would be sent" if dry_run else "sent"),
        **dict.fromkeys(plan.replayed, "replayed before"),
        **dict.fromkeys(plan.truncated, "truncated, not sent"),
    }
    _print(console, sorted(outcomes, key=lambda letter: (letter.partition, letter.offset)), outcomes)
    verb = "would be sent again" if dry_run else "sent again"
    console.print(f"{_count(len(plan.ready), 'record')} {verb}")
    if plan.replayed:
        console.print(
            f"{_count(len(plan.replayed), 'record')} skipped: replayed before; use --again to send them again"
        )
    if plan.truncated:
        console.print(
            f"{_count(len(plan.truncated), 'record')} not sent: dead.letters has only the first 64 KiB; take the "
            f"original from its topic, correct it and send it with `obol send … --json`"
        )


def _print(
    console: Console, dead_letters: Sequence[DeadLetterRecord], outcomes: Mapping[DeadLetterRecord, str]
) -> None:
    if not dead_letters:
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for title in ("reason", "record", "time", "org", "error", *(["replay"] if outcomes else [])):
        table.add_column(title, overflow="fold")
    for letter in dead_letters:
        content = letter.content
        cells = [content.reason, letter.origin, time_text(content.timestamp), letter.org_id or "–", content.error]
        table.add_row(*(printable(cell) for cell in cells), *([outcomes[letter]] if outcomes else []))
    console.print(table, soft_wrap=False)


def _as_json(letter: DeadLetterRecord) -> Json:
    extra = {"dead_letter_partition": letter.partition, "dead_letter_offset": letter.offset, "org_id": letter.org_id}
    return {**letter.content.model_dump(exclude_none=True), **extra}


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
