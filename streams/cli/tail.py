"""`obol tail …`: what comes out, as it comes."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

import typer
from aiokafka import TopicPartition
from rich.console import Console

from streams.cli.cluster import assign, consumer, name_of, partition_counts, records, require
from streams.cli.columns import COLUMNS, Values, header, line
from streams.cli.context import now_ms, out, progress, run, settings
from streams.cli.groups import group
from streams.cli.letters import org_of
from streams.cli.words import parse_time, printable, time_text
from streams.settings import Settings
from topics.catalogue import CHANGES, DEAD_LETTERS, EXECLET_ORDERS, HOST_ORDERS, RESULTS, USAGE, TopicSpec
from topics.partitioner import partition_of

app = group("Follow what comes out, once it is committed.")

_TOPICS: Final[dict[str, tuple[TopicSpec, ...]]] = {
    "usage": (USAGE,),
    "changes": (CHANGES,),
    "results": (RESULTS,),
    "orders": (EXECLET_ORDERS, HOST_ORDERS),
    "dead": (DEAD_LETTERS,),
}

_ORG = Annotated[str | None, typer.Option("--org", "--org-id", help="Only this organisation's.")]
_SINCE = Annotated[
    str | None, typer.Option(help="From this time on: RFC 3339, ms since 1970, or an age such as 10m. Beats --last.")
]
_LAST = Annotated[int, typer.Option("--last", "-n", min=0, help="Begin with about this many of the last records.")]
_FOLLOW = Annotated[bool, typer.Option("--follow/--no-follow", help="Go on with what comes, until Ctrl-C.")]
_JSON = Annotated[bool, typer.Option("--json", help="Each record's value as a line of JSON, as it is in the topic.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What is to be shown, and how."""

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
        wish = Wish(
            specs=specs,
            org_id=org,
            since_ms=None if since is None else parse_time(since, "--since", now_ms),
            last=last,
            follow=follow,
            as_json=as_json,
        )
        run(_tail(settings(), wish, out()))

    app.command(name, help=" ".join(spec.summary for spec in specs))(show)


for _name, _specs in _TOPICS.items():
    _add(_name, _specs)


async def _tail(config: Settings, wish: Wish, console: Console) -> None:
    counts = await partition_counts(config)
    places = [
        TopicPartition(config.topic(spec.name), partition)
        for spec in wish.specs
        for partition in _partitions(spec, require(counts, spec, config), wish.org_id)
    ]
    columns = COLUMNS[wish.specs[0].name]
    if not wish.as_json:
        console.print(header(columns))
    async with consumer(config) as client:
        last = wish.last if wish.since_ms is None else None
        reach = await assign(client, places, since_ms=wish.since_ms, last=last)
        shown = [] if last is None else await _last(client, reach, wish, last)
        for record in shown:
            _show(record, wish, config, console)
        if last is None or wish.follow:
            async for batch in records(client, reach, follow=wish.follow):
                for record in batch:
                    if _wanted(record, wish.org_id):
                        _show(record, wish, config, console)


def _partitions(spec: TopicSpec, partitions: int, org_id: str | None) -> Sequence[int]:
    """Where an org's records are: in one partition, but dead letters in that of their origin."""
    if org_id is None or spec is DEAD_LETTERS:
        return range(partitions)
    return (partition_of(org_id, partitions),)


async def _last(client: Any, reach: Any, wish: Wish, last: int) -> list[Any]:
    """The last records of all partitions together; the consumer then stands behind them."""
    found: list[Any] = []
    with progress(counted=False) as bar:
        bar.add_task("reading the last records", total=None)
        async for batch in records(client, reach, follow=False):
            found += [record for record in batch if _wanted(record, wish.org_id)]
    client.resume(*reach.end)
    found.sort(key=lambda record: record.timestamp)
    return found[-last:] if last else []


def _wanted(record: Any, org_id: str | None) -> bool:
    if org_id is None:
        return True
    if record.key is not None:
        return bool(record.key == org_id.encode())
    return org_of(_values(record)) == org_id


def _values(record: Any) -> Values:
    try:
        values = json.loads(record.value)
    except ValueError:
        return {}
    return values if isinstance(values, dict) else {}


def _show(record: Any, wish: Wish, config: Settings, console: Console) -> None:
    if wish.as_json:
        console.out(printable(record.value.decode(errors="replace")), highlight=False)
        return
    values = _values(record)
    if not values:
        place = f"{name_of(record, config)}[{record.partition}]@{record.offset}"
        console.print(f"{place}, {time_text(record.timestamp)}: no JSON object, {len(record.value or b'')} bytes")
        return
    console.print(line(COLUMNS[name_of(record, config)], values))
