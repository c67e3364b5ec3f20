"""`obol show …` and `obol explain`: a worker's rows, as its web views give them."""

import json
from typing import Annotated
from urllib.parse import quote

import typer

from streams.cli.context import out
from streams.cli.failure import Failure
from streams.cli.groups import group
from streams.cli.render import render
from streams.cli.words import printable
from streams.cli.worker import ask, base_url, path

app = group("Show a row as a worker has it now.")

_URL = Annotated[str | None, typer.Option(help="A worker; else OBOL_ADVERTISED_URL, else http://127.0.0.1:6066.")]
_JSON = Annotated[bool, typer.Option("--json", help="The answer itself, as JSON.")]
_TIMEOUT = Annotated[float, typer.Option(min=0, help="Seconds to wait while the partition is restoring.")]
_ORG = Annotated[
    str | None, typer.Option("--org", "--org-id", help="The organisation; found by the id where only one has it.")
]


@app.command("org")
def show_org(org: str, url: _URL = None, as_json: _JSON = False, timeout: _TIMEOUT = 30) -> None:  # noqa: FBT002
    """Show an organisation: its balance, burn and runway, and its rows counted by state."""
    _show(("orgs", org), url, timeout, as_json=as_json)


def _add(kind: str, doc: str) -> None:
    def show(
        row_id: Annotated[str, typer.Argument(metavar=f"{kind.upper()}_ID")],
        org: _ORG = None,
        url: _URL = None,
        as_json: _JSON = False,  # noqa: FBT002 - an option, given by name
        timeout: _TIMEOUT = 30,
    ) -> None:
        org_id = org or _org_of(kind, row_id, url, timeout)
        _show(("orgs", org_id, f"{kind}s", row_id), url, timeout, as_json=as_json)

    app.command(kind, help=doc)(show)


_add("deployment", "Show a deployment and its replicas.")
_add("replica", "Show a replica and its running windows.")
_add("instance", "Show an instance and the windows of its meters.")
_add("window", "Show a window: when it was open, and what became of its time.")


def explain(
    usage_id: Annotated[str, typer.Argument(metavar="USAGE_ID")],
    org: _ORG = None,
    url: _URL = None,
    as_json: _JSON = False,  # noqa: FBT002 - an option, given by name
    timeout: _TIMEOUT = 30,
) -> None:
    """Say why a charge exists, or why it does not.

    The id of a minute that was not charged is made as that of a charge: <owner>[:gpu|:disk]:<interval start>.
    """
    owner_id, _, meter = usage_id.partition(":")
    kind = "instance" if meter.startswith(("gpu:", "disk:")) else "replica"
    org_id = org or _org_of(kind, owner_id, url, timeout)
    _show(("orgs", org_id, "explain", usage_id), url, timeout, as_json=as_json)


def _org_of(kind: str, row_id: str, url: str | None, timeout_s: float) -> str:
    """The only org that has a row with this id; ids are unique within an org, not beyond. Raises `Failure`."""
    answer = ask(base_url(url), f"/search?q={quote(row_id, safe='')}", timeout_s)
    orgs = sorted({item["org_id"] for item in answer["items"] if item["kind"] == kind and item["id"] == row_id})
    match orgs:
        case [org_id]:
            return str(org_id)
        case []:
            raise Failure(f"{kind} {printable(row_id)!r} is in no org; it may have left after the retention")
        case _:
            raise Failure(f"{kind} {row_id} is in {len(orgs)} orgs: add --org, one of {printable(', '.join(orgs))}")


def _show(parts: tuple[str, ...], url: str | None, timeout_s: float, *, as_json: bool) -> None:
    answer = ask(base_url(url), path(*parts), timeout_s)
    console = out()
    if as_json:
        console.out(printable(json.dumps(answer, ensure_ascii=False)), highlight=False)
    else:
        console.print(render(answer), soft_wrap=False)
