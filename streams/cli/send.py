"""`obol send …`: send one record, or several from stdin."""

import sys
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, get_args

import typer

from schemas.accounts import BalanceUpdated, OrgReinstated, OrgSuspended
from schemas.base import Json, Wire
from schemas.clock import Tick
from schemas.commands import Command
from schemas.heartbeats import Heartbeat
from schemas.operator import CreditWindow
from schemas.prices import Price
from schemas.progress import Progress
from schemas.reports import LaunchFailed, OtherReport, OtherReportName
from schemas.requests import InferenceRequest
from schemas.times import rfc3339
from streams.cli.context import now_ms, run, settings
from streams.cli.failure import EXIT_USAGE, Failure
from streams.cli.forms import body, command, fields, models_of
from streams.cli.groups import group
from streams.cli.sending import Delivery, send
from streams.cli.text import parse_time
from streams.cli.validation import ValidRecord, validate, validate_text
from topics.catalogue import (
    ACCOUNTS,
    CLOCK,
    COMMANDS,
    HEARTBEATS,
    OPERATOR_COMMANDS,
    PRICES,
    PROGRESS,
    REPORTS,
    REQUESTS,
    TopicSpec,
)

app = group("Send a record after validating it against the schemas.")

Extra = Mapping[str, tuple[Any, Any]]

_AT: Final = Annotated[
    str | None,
    typer.Option(help="The record's timestamp (OBOL_TIMESTAMPS=producer): RFC 3339, ms, or an age such as 10m."),
]
_JSON: Final = Annotated[
    str | None,
    typer.Option(
        "--json", metavar="VALUE", help="The whole value as JSON; - reads one or more from stdin, one per line."
    ),
]
_WAIT: Final = Annotated[bool, typer.Option("--wait", help="Wait for the result; exit code 1 if rejected.")]
_TIMEOUT: Final = Annotated[float, typer.Option(min=0.1, help="With --wait: seconds to wait before exit code 3.")]
_REMOVE: Final = Annotated[bool, typer.Option("--remove", help="Remove the price of the profile.")]

_TIMED: Final[Extra] = {"at": (_AT, None)}
_FREE: Final[Extra] = {**_TIMED, "json_value": (_JSON, None)}
_WAITED: Final[Extra] = {**_TIMED, "wait": (_WAIT, False), "timeout": (_TIMEOUT, 30.0)}


def _delivery(values: Json) -> Delivery:
    at = values.get("at")
    if at is not None and settings().timestamps == "broker":
        msg = (
            "--at has no effect with OBOL_TIMESTAMPS=broker, where the broker sets timestamps: omit it, or use an "
            "installation with OBOL_TIMESTAMPS=producer"
        )
        raise Failure(msg, EXIT_USAGE)
    return Delivery(
        at_ms=None if at is None else parse_time(at, "--at", now_ms),
        wait=values.get("wait", False),
        timeout_s=values.get("timeout", 30.0),
    )


def _send(records: list[ValidRecord], values: Json) -> None:
    delivery = _delivery(values)
    if code := run(send(settings(), records, delivery)):
        raise typer.Exit(code)


def _read(given: str) -> str:
    """Return the option's value, or stdin for `-`; validation refuses bytes that are not UTF-8."""
    return sys.stdin.buffer.read().decode("utf-8", "surrogateescape") if given == "-" else given


def _form(model: type[Wire], spec: TopicSpec, fixed: Json, extra: Extra) -> Callable[..., None]:
    """Return a command with an option for each field of `model` that is not in `fixed`, which the command name sets."""
    form = fields(model, without=(*fixed, *extra))

    def action(values: Json) -> None:
        content = body(form, values)
        if (given := values.get("json_value")) is not None:
            if content:
                raise Failure("--json is the whole value: omit the other fields, or omit --json", EXIT_USAGE)
            _send(validate_text(spec, _read(given)), values)
        else:
            _send([validate(spec, {**content, **fixed}, form)], values)

    name = "_".join(str(value) for value in fixed.values()) or model.__name__.lower()
    return command(name, model.__doc__ or "", form, extra, action)


def _whole(spec: TopicSpec, extra: Extra) -> Callable[..., None]:
    """Return the action of a group without a command: it takes a whole value of any type with `--json`."""

    def action(values: Json) -> None:
        context: typer.Context = values["context"]
        given = values["json_value"]
        if context.invoked_subcommand is not None:
            if given is not None:
                raise Failure(f"--json is the whole value: omit {context.invoked_subcommand}", EXIT_USAGE)
        elif given is None:
            typer.echo(context.get_help())
        else:
            _send(validate_text(spec, _read(given)), values)

    return command(spec.name, "", (), {"context": (typer.Context, None), **extra}, action)


def _group(name: str, spec: TopicSpec, extra: Extra, help_: str) -> typer.Typer:
    typer_group = group(help_)
    typer_group.callback(invoke_without_command=True)(_whole(spec, {**extra, "json_value": (_JSON, None)}))
    app.add_typer(typer_group, name=name)
    return typer_group


_commands = _group("command", COMMANDS, _WAITED, "Send a user's command; each gets one result.")
for _model in models_of(Command):
    _type = _model.model_fields["type"].default
    _commands.command(_type)(_form(_model, COMMANDS, {"type": _type}, _WAITED))

_operator = _group("operator", OPERATOR_COMMANDS, _WAITED, "Send an operator's command; each gets one result.")
_operator.command("credit_window")(_form(CreditWindow, OPERATOR_COMMANDS, {"type": "credit_window"}, _WAITED))


def credit(
    window_id: Annotated[str, typer.Argument(metavar="WINDOW_ID")],
    org: Annotated[str, typer.Option("--org", "--org-id", help="The organisation whose window it is.")],
    start: Annotated[str, typer.Option("--from", help="Start: RFC 3339, ms since 1970, or an age such as 2h.")],
    until: Annotated[str, typer.Option(help="End, exclusive: likewise.")],
    note: Annotated[str | None, typer.Option(help="The reason; it is in each credit.")] = None,
    command_id: Annotated[str | None, typer.Option(help="Default: generated.")] = None,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds to wait before exit code 3.")] = 30.0,
) -> None:
    """Credit what was billed of a window between two times, and wait for the result (B13)."""
    times = {
        "from": rfc3339(parse_time(start, "--from", now_ms)),
        "until": rfc3339(parse_time(until, "--until", now_ms)),
    }
    given = {"org_id": org, "window_id": window_id, "note": note, "command_id": command_id}
    content = {"type": "credit_window", **times, **{name: value for name, value in given.items() if value is not None}}
    _send([validate(OPERATOR_COMMANDS, content, fields(CreditWindow))], {"wait": True, "timeout": timeout})


_reports = _group("report", REPORTS, _TIMED, "Send a host's report about an instance.")
for _name in ("launch_failed", *get_args(OtherReportName)):
    _report = LaunchFailed if _name == "launch_failed" else OtherReport
    _reports.command(_name, help=f"Report {_name} of an instance.")(_form(_report, REPORTS, {"report": _name}, _TIMED))

app.command("progress")(_form(Progress, PROGRESS, {}, _FREE))
app.command("heartbeat")(_form(Heartbeat, HEARTBEATS, {}, _FREE))
app.command("request")(_form(InferenceRequest, REQUESTS, {}, _FREE))
app.command("balance")(_form(BalanceUpdated, ACCOUNTS, {"type": "balance_updated"}, _FREE))
app.command("suspend")(_form(OrgSuspended, ACCOUNTS, {"type": "org_suspended"}, _FREE))
app.command("reinstate")(_form(OrgReinstated, ACCOUNTS, {"type": "org_reinstated"}, _FREE))
app.command("tick", help="Send a tick to every partition: time has reached the record's timestamp.")(
    _form(Tick, CLOCK, {"type": "tick"}, _TIMED)
)


def _price(values: Json) -> None:
    content = body(_PRICE_FIELDS, values)
    if (given := values.get("json_value")) is not None:
        if content or values["remove"]:
            raise Failure("--json is the whole value: omit the other fields, or omit --json", EXIT_USAGE)
        _send(validate_text(PRICES, _read(given)), values)
    elif values["remove"]:
        if set(content) != {"profile"}:
            raise Failure("--remove takes only --profile: omit the other fields, or omit --remove", EXIT_USAGE)
        _send([ValidRecord(PRICES, None, content["profile"].encode(), None)], values)
    else:
        _send([validate(PRICES, {"currency": settings().currency, **content}, _PRICE_FIELDS)], values)


_PRICE_FIELDS: Final = fields(Price)
app.command("price")(
    command(
        "price",
        "Set or remove the price per hour of a profile; the default currency is OBOL_CURRENCY.",
        _PRICE_FIELDS,
        {"remove": (_REMOVE, False), **_FREE},
        _price,
    )
)
