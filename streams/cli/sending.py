"""Sending records and waiting for what becomes of commands."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from aiokafka import AIOKafkaConsumer, TopicPartition
from rich.console import Console

from schemas.results import CommandResult
from streams.cli.cluster import (
    Draft,
    Range,
    assign,
    consumer,
    partition_counts,
    producer,
    put,
    records,
    require,
)
from streams.cli.context import notes, out, progress
from streams.cli.failure import EXIT_FAILED, EXIT_NO_ANSWER, Failure
from streams.cli.parcels import Parcel
from streams.cli.words import printable, time_text
from streams.settings import Settings
from topics.catalogue import RESULTS
from topics.codec import decode
from topics.partitioner import partition_of

_TOLD_ONE_BY_ONE: Final = 20

Asked = frozenset[tuple[str, str]]
"""Commands by (`org_id`, `command_id`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """How records are sent: their time in ms (None: now), and whether and how long (s) to wait for results."""

    at_ms: int | None = None
    wait: bool = False
    timeout_s: float = 30.0


async def send(settings: Settings, parcels: Sequence[Parcel], delivery: Delivery) -> int:
    """Send records and say where each came to stand; with `wait`, give each command's result. The exit code."""
    counts = await partition_counts(settings)
    drafts = [
        draft for parcel in parcels for draft in parcel.drafts(require(counts, parcel.spec, settings), delivery.at_ms)
    ]
    if not delivery.wait:
        await deliver(settings, drafts, out())
        return 0
    partitions = require(counts, RESULTS, settings)
    asked = frozenset((parcel.model.org_id, parcel.model.command_id) for parcel in parcels)
    places = {TopicPartition(settings.topic(RESULTS.name), partition_of(org_id, partitions)) for org_id, _ in asked}
    async with consumer(settings) as client:
        reach = await assign(client, places, since_ms=None, last=0)
        await deliver(settings, drafts, notes())
        return await _results(client, reach, asked, delivery.timeout_s)


async def deliver(settings: Settings, drafts: Sequence[Draft], console: Console) -> None:
    """Send records, all at once, and say where each came to stand, or how many where they are many."""
    one_by_one = len(drafts) <= _TOLD_ONE_BY_ONE
    async with producer(settings) as client:
        with progress(counted=True) as bar:
            task = bar.add_task("sending", total=len(drafts))
            futures = [await put(client, draft, settings) for draft in drafts]
            for draft, future in zip(drafts, futures, strict=True):
                place = await future
                bar.advance(task)
                if one_by_one:
                    where = f"{place.topic}[{place.partition}] at offset {place.offset}"
                    console.print(f"sent {draft.name} to {where}, {time_text(place.timestamp)}")
    if not one_by_one:
        for topic, number in Counter(draft.topic for draft in drafts).items():
            console.print(f"sent {number:,} records to {settings.topic(topic)}")


async def _results(client: AIOKafkaConsumer, reach: Range, asked: Asked, timeout_s: float) -> int:
    """Print the result of each command that was asked, as they come; 0 when all were accepted."""
    left, code = set(asked), 0
    console = out()
    try:
        async with asyncio.timeout(timeout_s):
            with progress(counted=True) as bar:
                task = bar.add_task("waiting for results", total=len(asked))
                async for batch in records(client, reach, follow=True):
                    for record in batch:
                        result = decode(RESULTS, record.value)
                        if isinstance(result, CommandResult) and (result.org_id, result.command_id) in left:
                            left.discard((result.org_id, result.command_id))
                            console.print(told(result))
                            code = code if result.outcome == "accepted" else EXIT_FAILED
                            bar.advance(task)
                    if not left:
                        return code
    except TimeoutError as error:
        names = ", ".join(sorted(command_id for _, command_id in left))
        msg = (
            f"no result of {names} within {timeout_s:g} s, though it was sent: check that a worker runs for this "
            f"OBOL_NAMESPACE, then look with `obol tail results --since 10m`"
        )
        raise Failure(msg, EXIT_NO_ANSWER) from error
    return code


def told(result: CommandResult) -> str:
    """A result in one line."""
    code = f" {result.code}" if result.code else ""
    return printable(f"{result.outcome}{code} {result.status} {result.command_id}: {result.message}")
