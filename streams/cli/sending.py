"""Send records, and wait for the results of commands."""

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
    OffsetRange,
    assign,
    consumer,
    partition_counts,
    produce,
    producer,
    records,
    require_topic,
)
from streams.cli.context import notes, out, progress
from streams.cli.failure import EXIT_FAILED, EXIT_NO_RESPONSE, Failure
from streams.cli.text import printable, time_text
from streams.cli.validation import ValidRecord
from streams.settings import Settings
from topics.catalogue import RESULTS
from topics.codec import decode
from topics.partitioner import partition_of

_MAX_LISTED: Final = 20
"""Up to so many sent records are listed; more are counted."""

CommandKeys = frozenset[tuple[str, str]]
"""Commands by (`org_id`, `command_id`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """How to send: the records' timestamp (None: now), and whether to wait for results, for up to `timeout_s`."""

    at_ms: int | None = None
    wait: bool = False
    timeout_s: float = 30.0


async def send(settings: Settings, valid: Sequence[ValidRecord], delivery: Delivery) -> int:
    """Send records and print their positions, or with `wait` the results of the commands. Returns the exit code."""
    counts = await partition_counts(settings)
    drafts = [
        draft
        for record in valid
        for draft in record.drafts(require_topic(counts, record.spec, settings), delivery.at_ms)
    ]
    if not delivery.wait:
        await deliver(settings, drafts, out())
        return 0
    partitions = require_topic(counts, RESULTS, settings)
    commands = frozenset((record.model.org_id, record.model.command_id) for record in valid)
    topic = settings.topic(RESULTS.name)
    assigned = {TopicPartition(topic, partition_of(org_id, partitions)) for org_id, _ in commands}
    async with consumer(settings) as client:
        span = await assign(client, assigned, since_ms=None, last=0)
        await deliver(settings, drafts, notes())
        return await _results(client, span, commands, delivery.timeout_s)


async def deliver(settings: Settings, drafts: Sequence[Draft], console: Console) -> None:
    """Send records and print the position of each, or only their number if there are many."""
    listed = len(drafts) <= _MAX_LISTED
    async with producer(settings) as client:
        with progress(counted=True) as bar:
            task = bar.add_task("sending", total=len(drafts))
            futures = [await produce(client, draft, settings) for draft in drafts]
            for draft, future in zip(drafts, futures, strict=True):
                metadata = await future
                bar.advance(task)
                if listed:
                    position = f"{metadata.topic}[{metadata.partition}] at offset {metadata.offset}"
                    console.print(f"sent {draft.name} to {position}, {time_text(metadata.timestamp)}")
    if not listed:
        for topic, number in Counter(draft.topic for draft in drafts).items():
            console.print(f"sent {number:,} records to {settings.topic(topic)}")


async def _results(client: AIOKafkaConsumer, span: OffsetRange, commands: CommandKeys, timeout_s: float) -> int:
    """Print the result of each command as it arrives. Returns the exit code, 0 when all were accepted."""
    unanswered, code = set(commands), 0
    console = out()
    try:
        async with asyncio.timeout(timeout_s):
            with progress(counted=True) as bar:
                task = bar.add_task("waiting for results", total=len(commands))
                async for batch in records(client, span, follow=True):
                    for record in batch:
                        result = decode(RESULTS, record.value)
                        if isinstance(result, CommandResult) and (result.org_id, result.command_id) in unanswered:
                            unanswered.discard((result.org_id, result.command_id))
                            console.print(result_line(result))
                            code = code if result.outcome == "accepted" else EXIT_FAILED
                            bar.advance(task)
                    if not unanswered:
                        return code
    except TimeoutError as error:
        names = ", ".join(sorted(command_id for _, command_id in unanswered))
        msg = (
            f"sent, but no result of {names} within {timeout_s:g} s: check that a worker runs for this "
            f"OBOL_NAMESPACE, then read the results with `obol tail results --since 10m`"
        )
        raise Failure(msg, EXIT_NO_RESPONSE) from error
    return code


def result_line(result: CommandResult) -> str:
    """Return a result as one line of text."""
    code = f" {result.code}" if result.code else ""
    return printable(f"{result.outcome}{code} {result.status} {result.command_id}: {result.message}")
