"""`obol dead …`: the records that could not be applied, and sending them again after a mend."""

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, get_args

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from schemas.dead_letters import DeadLetterReason
from streams.cli.context import now_ms, out, run, settings
from streams.cli.failure import EXIT_USAGE, Failure
from streams.cli.groups import group
from streams.cli.letters import Letter
from streams.cli.replaying import Fates, Filter, judge, read_letters, replay
from streams.cli.words import parse_time, printable, time_text
from topics.catalogue import INBOUND

app = group("The records that could not be applied: list them, send them again.")

_REASON = Annotated[str | None, typer.Option(help=f"Only this reason: {', '.join(get_args(DeadLetterReason))}.")]
_TOPIC = Annotated[str | None, typer.Option(help="Only from this topic (without namespace).")]
_PARTITION = Annotated[int | None, typer.Option(min=0, help="Only from this partition.")]
_OFFSET = Annotated[int | None, typer.Option(min=0, help="Only the record at this offset of its topic.")]
_ORG = Annotated[str | None, typer.Option("--org", "--org-id", help="Only this organisation's, where it can be read.")]
_SINCE = Annotated[str | None, typer.Option(help="From this time on: RFC 3339, ms since 1970, or an age such as 10m.")]
_JSON = Annotated[bool, typer.Option("--json", help="A JSON object a line.")]
_DRY = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and send nothing.")]
_ALL = Annotated[bool, typer.Option("--all", help="Needed to replay without any filter.")]
_AGAIN = Annotated[bool, typer.Option("--again", help="Send also what was sent again before.")]


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
        raise Failure(f"--reason {printable(reason)!r} is none of {', '.join(reasons)}", EXIT_USAGE)
    if topic is not None and topic not in topics:
        raise Failure(f"--topic {printable(topic)!r} is none of {', '.join(topics)}", EXIT_USAGE)
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
    """List dead letters: where each record stood, and why it could not be applied."""
    letters = run(read_letters(settings(), _filter(reason, topic, partition, offset, org, since)))
    console = out()
    if as_json:
        for letter in letters:
            console.out(printable(json.dumps(_as_json(letter), ensure_ascii=False)), highlight=False)
        return
    _print(console, letters, {})
    console.print(_count(len(letters), "dead letter"))


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
    """Send dead letters again, byte for byte, to where they stood, after what made them fail was mended.

    All in one transaction, each with the header obol-replayed. What was sent again before is left out, and so is what
    was cut at 64 KiB. With OBOL_TIMESTAMPS=producer they keep their time, else the broker gives them a new one.
    """
    wanted = _filter(reason, topic, partition, offset, org, since)
    if wanted.is_empty and not everything:
        msg = "choose what to replay by --reason, --topic, … or say --all; --dry-run shows what it would be"
        raise Failure(msg, EXIT_USAGE)
    result = run(_judged(wanted, again=again) if dry_run else replay(settings(), wanted, again=again))
    _tell(out(), result, dry_run=dry_run)
    if result.cut:
        raise typer.Exit(1)


async def _judged(wanted: Filter, *, again: bool) -> Fates:
    return await judge(settings(), await read_letters(settings(), wanted), again=again)


def _tell(console: Console, result: Fates, *, dry_run: bool) -> None:
    fates = {
        **dict.fromkeys(result.ready, "would be sent" if dry_run else "sent"),
        **dict.fromkeys(result.done, "was sent before"),
        **dict.fromkeys(result.cut, "cut, not sent"),
    }
    _print(console, sorted(fates, key=lambda letter: (letter.partition, letter.offset)), fates)
    verb = "would be sent again" if dry_run else "sent again"
    console.print(f"{_count(len(result.ready), 'record')} {verb}")
    if result.done:
        console.print(f"{_count(len(result.done), 'record')} left out: sent again before; --again sends them once more")
    if result.cut:
        console.print(
            f"{_count(len(result.cut), 'record')} not sent: dead.letters has only the first 64 KiB; take the original "
            f"from its topic, mend it and send it with `obol send … --json`"
        )


def _print(console: Console, letters: Sequence[Letter], fates: Mapping[Letter, str]) -> None:
    if not letters:
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for title in ("reason", "record", "time", "org", "error", *(["now"] if fates else [])):
        table.add_column(title, overflow="fold")
    for letter in letters:
        content = letter.content
        cells = [content.reason, letter.origin, time_text(content.timestamp), letter.org_id or "–", content.error]
        table.add_row(*(printable(cell) for cell in cells), *([fates[letter]] if fates else []))
    console.print(table, soft_wrap=False)


def _as_json(letter: Letter) -> dict[str, Any]:
    place = {"dead_letter_partition": letter.partition, "dead_letter_offset": letter.offset, "org_id": letter.org_id}
    return {**letter.content.model_dump(exclude_none=True), **place}


def _count(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}"
