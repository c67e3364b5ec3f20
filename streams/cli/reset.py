"""`obol accept-reset`: go on with an input that was made again, or has lost records that were applied."""

import logging
from enum import StrEnum
from typing import Annotated, Final

import typer

from streams.cli.context import out, progress, run, settings
from streams.cli.failure import EXIT_USAGE, Failure
from streams.cli.text import printable
from streams.engine.reset import Reset, ResetError, accept_reset
from streams.engine.shard import INPUTS
from topics.catalogue import PRICES

RESETTABLE: Final = (*INPUTS, PRICES.name)


class Start(StrEnum):
    """From where an input is read on."""

    BEGINNING = "beginning"
    END = "end"


_TOPIC = Annotated[str, typer.Argument(help="The input, without the namespace: user.commands, ….")]
_FROM = Annotated[
    Start | None,
    typer.Option(
        "--from",
        help="From where to read on. Default: the beginning of a topic that was made again, the end of one that has "
        "lost its last records. Required where the broker gives no topic ids.",
    ),
]


def accept(topic: _TOPIC, start: _FROM = None) -> None:
    """Go on with an input that was deleted and made again, or that ends before what was applied.

    Workers refuse such an input, as its records may be lost or be applied again. Run this once, while no worker runs;
    it is recorded and counted in the position of each partition. A worker that does run ends, to be started again.
    """
    if topic not in RESETTABLE:
        msg = f"{printable(topic)!r} is not one of {', '.join(RESETTABLE)}"
        raise Failure(msg, EXIT_USAGE)
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    with progress(counted=False) as bar:
        bar.add_task(f"accepting {topic}", total=None)
        resets = run(_accept(topic, start))
    console = out()
    for reset in resets:
        console.print(
            f"{topic} partition {reset.partition}: applied up to offset {reset.applied}, reading on from {reset.start}"
        )
    if not resets:
        console.print(f"{topic} is what was read before; nothing to accept")


async def _accept(topic: str, start: Start | None) -> list[Reset]:
    try:
        return await accept_reset(settings(), topic, None if start is None else start.value)
    except ResetError as error:
        raise Failure(str(error)) from error
