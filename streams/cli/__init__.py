"""`obol`: send records, follow outputs, show rows, and replay dead letters.

It reads the same environment variables as a worker. Exit codes: 0 success, 1 failed or rejected, 2 wrong usage or a
wrong setting, 3 no response in time, 130 interrupted.
"""

import logging
import os
import sys
from collections.abc import Sequence

import typer

from streams.cli import dead, reset, send, show, tail, topics
from streams.cli.failure import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_USAGE, Failure
from streams.cli.groups import group
from streams.settings import SettingError

__all__ = ["app", "main", "run"]

app = group(
    "Send records, follow outputs, show rows, and replay dead letters.",
    name="obol",
    epilog="Reads the same environment variables as a worker.",
    completion=True,
)
app.add_typer(send.app, name="send")
app.add_typer(tail.app, name="tail")
app.add_typer(show.app, name="show")
app.command("explain")(show.explain)
app.command("usage")(show.usage)
app.command("credit")(send.credit)
app.add_typer(topics.app, name="topics")
app.add_typer(dead.app, name="dead")
app.command("accept-reset")(reset.accept)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    # The libraries also log connection errors; ours name the fix.
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    try:
        code = app(args=arguments, prog_name="obol", standalone_mode=False)
        sys.stdout.flush()
    except Failure as failure:
        return _fail(str(failure), failure.code)
    except SettingError as error:
        return _fail(str(error), EXIT_USAGE)
    except typer.TyperException as error:
        return _fail(_usage(error), EXIT_USAGE)
    except (KeyboardInterrupt, typer.Abort):
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader closed the pipe. Redirect stdout, or flushing the rest of its buffer at exit would raise again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_FAILED
    return code if isinstance(code, int) else 0


def main() -> None:
    """Entry point of the console script."""
    sys.exit(run())


def _fail(message: str, code: int = EXIT_FAILED) -> int:
    typer.echo(f"error: {message}", err=True)
    return code


def _usage(error: typer.TyperException) -> str:
    context = getattr(error, "ctx", None)
    where = f"; see `{context.command_path} --help`" if context is not None else ""
    return f"{' '.join(error.format_message().split()).rstrip('.')}{where}"
