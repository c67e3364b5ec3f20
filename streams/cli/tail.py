"""`obol tail …`: print the records of an output topic and follow it."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

import typer
from aiokafka import TopicPartition
from rich.console import Console

from schemas.base import Json
from streams.cli.cluster import assign, consumer, name_of, partition_counts, records, require_topic
from streams.cli.columns import COLUMNS, header, line
from streams.cli.context import now_ms, out, progress, run, settings
from streams.cli.dead_letters import org_of
from streams.cli.groups import group
from streams.cli.text import parse_time, printable, time_text
from streams.settings import Settings
from topics.catalogue import (
    CHANGES,
    CREDITS,
    DEAD_LETTERS,
    EXECLET_ORDERS,
    HOST_ORDERS,
    NOTICES,
    RESULTS,
    USAGE,
    TopicSpec,
)
from topics.partitioner import partition_of

app = group("Print the committed records of an output topic, and follow it.")

_TOPICS: Final[dict[str, tuple[TopicSpec, ...]]] = {
    "usage": (USAGE,),
    "credits": (CREDITS,),
    "notices": (NOTICES,),
    "changes": (CHANGES,),
    "results": (RESULTS,),
    "orders": (EXECLET_ORDERS, HOST_ORDERS),
    "dead": (DEAD_LETTERS,),
}

_ORG = Annotated[str | None, typer.Option("--org", "--org-id", help="Only of this organisation.")]
_SINCE = Annotated[
    str | None,
    typer.Option(help="Start at this time: RFC 3339, ms since 1970, or an age such as 10m. Overrides --last."),
]
_LAST = Annotated[int, typer.Option("--last", "-n", min=0, help="Start with this many of the last records.")]
_FOLLOW = Annotated[bool, typer.Option("--follow/--no-follow", help="Continue with new records until Ctrl-C.")]
_JSON = Annotated[
    bool, typer.Option("--json", help="Print each record's value as in the topic, one JSON object per line.")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class TailOptions:
    """The command's arguments."""

    specs: Sequence[TopicSpec]
    org_id: str | None
    since_ms: int | None
    last: int
    follow: bool
    as_json: bool


def _add(name: str, specs: Sequence[TopicSpec]) -> None:
    def show(
        org: _ORG = None,
        since: _SINCE = None,
        last: _LAST = 10,
        follow: _FOLLOW = True,  # noqa: FBT002 - an option, given by name
        as_json: _JSON = False,  # noqa: FBT002
    ) -> None:
        options = TailOptions(
            specs=specs,
            org_id=org,
            since_ms=None if since is None else parse_time(since, "--since", now_ms),
            last=last,
            follow=follow,
            as_json=as_json,
        )
        run(_tail(settings(), options, out()))

    app.command(name, help=" ".join(spec.summary for spec in specs))(show)


for _name, _specs in _TOPICS.items():
    _add(_name, _specs)


async def _tail(config: Settings, options: TailOptions, console: Console) -> None:
    counts = await partition_counts(config)
    partitions = [
        TopicPartition(config.topic(spec.name), partition)
        for spec in options.specs
        for partition in _partitions(spec, require_topic(counts, spec, config), options.org_id)
    ]
    columns = COLUMNS[options.specs[0].name]
    if not options.as_json:
        console.print(header(columns))
    async with consumer(config) as client:
        last = options.last if options.since_ms is None else None
        span = await assign(client, partitions, since_ms=options.since_ms, last=last)
        for record in [] if last is None else await _last(client, span, options, last):
            _show(record, options, config, console)
        if last is None or options.follow:
            async for batch in records(client, span, follow=options.follow):
                for record in batch:
                    if _is_of(record, options.org_id):
                        _show(record, options, config, console)


def _partitions(spec: TopicSpec, partitions: int, org_id: str | None) -> Sequence[int]:
    """Return the partitions that can have an org's records: one, but of dead letters all."""
    if org_id is None or spec is DEAD_LETTERS:
        return range(partitions)
    return (partition_of(org_id, partitions),)


async def _last(client: Any, span: Any, options: TailOptions, last: int) -> list[Any]:
    """Return the last `last` records of all partitions together, and leave the consumer positioned after them."""
    found: list[Any] = []
    with progress(counted=False) as bar:
        bar.add_task("reading the last records", total=None)
        async for batch in records(client, span, follow=False):
            found += [record for record in batch if _is_of(record, options.org_id)]
    client.resume(*span.end)
    found.sort(key=lambda record: record.timestamp)
    return found[-last:] if last else []


def _is_of(record: Any, org_id: str | None) -> bool:
    if org_id is None:
        return True
    if record.key is not None:
        return bool(record.key == org_id.encode())
    return org_of(_values(record)) == org_id


def _values(record: Any) -> Json:
    try:
        values = json.loads(record.value)
    except ValueError:
        return {}
    return values if isinstance(values, dict) else {}


def _show(record: Any, options: TailOptions, config: Settings, console: Console) -> None:
    if options.as_json:
        console.out(printable(record.value.decode(errors="replace")), highlight=False)
        return
    values = _values(record)
    if not values:
        position = f"{name_of(record, config)}[{record.partition}]@{record.offset}"
        size = len(record.value or b"")
        console.print(f"{position}, {time_text(record.timestamp)}: not a JSON object, {size} bytes")
        return
    console.print(line(COLUMNS[name_of(record, config)], values))
