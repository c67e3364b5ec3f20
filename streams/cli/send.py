"""`obol send …`: one record, or many from stdin, as the contract's producers send them."""

import sys
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, get_args

import typer

from schemas.accounts import BalanceUpdated, OrgReinstated, OrgSuspended
from schemas.base import Wire
from schemas.clock import Tick
from schemas.commands import Command
from schemas.heartbeats import Heartbeat
from schemas.prices import Price
from schemas.progress import Progress
from schemas.reports import LaunchFailed, OtherReport, OtherReportName
from schemas.requests import InferenceRequest
from streams.cli.context import now_ms, run, settings
from streams.cli.failure import EXIT_USAGE, Failure
from streams.cli.forms import Values, body, command, fields, models_of
from streams.cli.groups import group
from streams.cli.parcels import Parcel, parcel, parcels
from streams.cli.sending import Delivery, send
from streams.cli.words import parse_time
from topics.catalogue import (
    ACCOUNTS,
    CLOCK,
    COMMANDS,
    HEARTBEATS,
    PRICES,
    PROGRESS,
    REPORTS,
    REQUESTS,
    TopicSpec,
)

app = group("Send a record, judged by the schemas first.")

Extra = Mapping[str, tuple[Any, Any]]

_AT: Final = Annotated[
    str | None,
    typer.Option(help="The record's time, where OBOL_TIMESTAMPS is producer: RFC 3339, ms, or an age such as 10m."),
]
_JSON: Final = Annotated[
    str | None,
    typer.Option(
        "--json", metavar="VALUE", help="The whole value as JSON; - reads stdin, one a line if more than one."
    ),
]
_WAIT: Final = Annotated[bool, typer.Option("--wait", help="Wait for the result; a rejection is exit code 1.")]
_TIMEOUT: Final = Annotated[float, typer.Option(min=0.1, help="With --wait: seconds to wait; then exit code 3.")]
_REMOVE: Final = Annotated[bool, typer.Option("--remove", help="Remove the profile's price from that time on.")]

_TIMED: Final[Extra] = {"at": (_AT, None)}
_FREE: Final[Extra] = {**_TIMED, "json_value": (_JSON, None)}
_WAITED: Final[Extra] = {**_TIMED, "wait": (_WAIT, False), "timeout": (_TIMEOUT, 30.0)}


def _delivery(values: Values) -> Delivery:
    at = values.get("at")
    if at is not None and settings().timestamps == "broker":
        msg = (
            "--at has no effect where the broker stamps each record (OBOL_TIMESTAMPS=broker): leave it out, or use an "
            "installation with OBOL_TIMESTAMPS=producer"
        )
        raise Failure(msg, EXIT_USAGE)
    return Delivery(
        at_ms=None if at is None else parse_time(at, "--at", now_ms),
        wait=values.get("wait", False),
        timeout_s=values.get("timeout", 30.0),
    )


def _send(sent: list[Parcel], values: Values) -> None:
    delivery = _delivery(values)
    if code := run(send(settings(), sent, delivery)):
        raise typer.Exit(code)


def _read(given: str) -> str:
    """The value itself, or stdin; bytes that are no UTF-8 are kept, for the schemas to refuse."""
    return sys.stdin.buffer.read().decode("utf-8", "surrogateescape") if given == "-" else given


def _form(model: type[Wire], spec: TopicSpec, fixed: Values, extra: Extra) -> Callable[..., None]:
    """A command with an option for each field of `model`; `fixed` are the fields that the command's own name gives."""
    found = fields(model, without=fixed)

    def action(values: Values) -> None:
        content = body(found, values)
        if (given := values.get("json_value")) is not None:
            if content:
                raise Failure("--json is the whole value: leave the other fields out, or leave it out", EXIT_USAGE)
            _send(parcels(spec, _read(given)), values)
        else:
            _send([parcel(spec, {**content, **fixed}, found)], values)

    name = "_".join(str(value) for value in fixed.values()) or model.__name__.lower()
    return command(name, model.__doc__ or "", found, extra, action)


def _whole(spec: TopicSpec, extra: Extra) -> Callable[..., None]:
    """What a group does by itself: take the whole value with `--json`, whatever its type."""

    def action(values: Values) -> None:
        context: typer.Context = values["context"]
        given = values["json_value"]
        if context.invoked_subcommand is not None:
            if given is not None:
                raise Failure(f"--json is the whole value: leave {context.invoked_subcommand} out", EXIT_USAGE)
        elif given is None:
            typer.echo(context.get_help())
        else:
            _send(parcels(spec, _read(given)), values)

    return command(spec.name, "", (), {"context": (typer.Context, None), **extra}, action)


def _group(name: str, spec: TopicSpec, extra: Extra, help_: str) -> typer.Typer:
    made = group(help_)
    made.callback(invoke_without_command=True)(_whole(spec, {**extra, "json_value": (_JSON, None)}))
    app.add_typer(made, name=name)
    return made


_commands = _group("command", COMMANDS, _WAITED, "A user's command; each gets one result.")
for _model in models_of(Command):
    _type = _model.model_fields["type"].default
    _commands.command(_type)(_form(_model, COMMANDS, {"type": _type}, _WAITED))

_reports = _group("report", REPORTS, _TIMED, "What a host tells of an instance's workload.")
for _name in ("launch_failed", *get_args(OtherReportName)):
    _report = LaunchFailed if _name == "launch_failed" else OtherReport
    _reports.command(_name, help=f"Report {_name} of an instance.")(_form(_report, REPORTS, {"report": _name}, _TIMED))

app.command("progress")(_form(Progress, PROGRESS, {}, _FREE))
app.command("heartbeat")(_form(Heartbeat, HEARTBEATS, {}, _FREE))
app.command("request")(_form(InferenceRequest, REQUESTS, {}, _FREE))
app.command("balance")(_form(BalanceUpdated, ACCOUNTS, {"type": "balance_updated"}, _FREE))
app.command("suspend")(_form(OrgSuspended, ACCOUNTS, {"type": "org_suspended"}, _FREE))
app.command("reinstate")(_form(OrgReinstated, ACCOUNTS, {"type": "org_reinstated"}, _FREE))
app.command("tick", help="Say that time has come this far, to every partition.")(
    _form(Tick, CLOCK, {"type": "tick"}, _TIMED)
)


def _price(values: Values) -> None:
    content = body(_PRICE_FIELDS, values)
    if (given := values.get("json_value")) is not None:
        if content or values["remove"]:
            raise Failure("--json is the whole value: leave the other fields out, or leave it out", EXIT_USAGE)
        _send(parcels(PRICES, _read(given)), values)
    elif values["remove"]:
        if set(content) != {"profile"}:
            raise Failure("--remove takes the --profile whose price goes, and nothing else of a price", EXIT_USAGE)
        _send([Parcel(PRICES, None, content["profile"].encode(), None)], values)
    else:
        _send([parcel(PRICES, {"currency": settings().currency, **content}, _PRICE_FIELDS)], values)


_PRICE_FIELDS: Final = fields(Price)
app.command("price")(
    command(
        "price",
        "Set what an hour of a profile costs from now on; the currency is OBOL_CURRENCY unless given.",
        _PRICE_FIELDS,
        {"remove": (_REMOVE, False), **_FREE},
        _price,
    )
)
