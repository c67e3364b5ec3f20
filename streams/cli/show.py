"""`obol show …` and `obol explain`: rows and explanations from a worker's web views."""

import json
from typing import Annotated
from urllib.parse import quote, urlencode

import typer

from streams.cli.context import out
from streams.cli.failure import Failure
from streams.cli.groups import group
from streams.cli.render import render
from streams.cli.text import printable
from streams.cli.worker import base_url, get_json, path

app = group("Show a row of a worker.")

_URL = Annotated[
    str | None, typer.Option(help="URL of a worker; default: OBOL_ADVERTISED_URL, else http://127.0.0.1:6066.")
]
_JSON = Annotated[bool, typer.Option("--json", help="Print the response as JSON.")]
_TIMEOUT = Annotated[float, typer.Option(min=0, help="Seconds to wait while the partition is restoring.")]
_ORG = Annotated[
    str | None, typer.Option("--org", "--org-id", help="The organisation; not needed if only one has this id.")
]


@app.command("org")
def show_org(org: str, url: _URL = None, as_json: _JSON = False, timeout: _TIMEOUT = 30) -> None:  # noqa: FBT002
    """Show an organisation: its balance, burn and runway, and the number of its rows by state."""
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
_add("replica", "Show a replica and its windows.")
_add("instance", "Show an instance and its windows.")
_add("window", "Show a window: when it was open, and how much of it is billed, pending and forgiven.")


def explain(
    usage_id: Annotated[str, typer.Argument(metavar="USAGE_ID")],
    org: _ORG = None,
    url: _URL = None,
    as_json: _JSON = False,  # noqa: FBT002 - an option, given by name
    timeout: _TIMEOUT = 30,
) -> None:
    """Explain why a charge exists, or why it does not.

    A minute that was not charged has the id that its charge would have had: <owner>[:gpu|:disk]:<interval start>.
    """
    owner_id, _, meter = usage_id.partition(":")
    kind = "instance" if meter.startswith(("gpu:", "disk:")) else "replica"
    org_id = org or _org_of(kind, owner_id, url, timeout)
    _show(("orgs", org_id, "explain", usage_id), url, timeout, as_json=as_json)


def usage(
    org: Annotated[str, typer.Argument(metavar="ORG_ID")],
    start: Annotated[str | None, typer.Option("--from", help="First day, YYYY-MM-DD; default: 30 days ago.")] = None,
    until: Annotated[str | None, typer.Option(help="Day after the last, YYYY-MM-DD; default: tomorrow.")] = None,
    url: _URL = None,
    as_json: _JSON = False,  # noqa: FBT002 - an option, given by name
    timeout: _TIMEOUT = 30,
) -> None:
    """Show an organisation's usage, credits and cost by day, at Obol's prices (U1)."""
    query = urlencode({name: day for name, day in (("from", start), ("until", until)) if day is not None})
    _show(("orgs", org, "usage"), url, timeout, as_json=as_json, query=query)


def _org_of(kind: str, row_id: str, url: str | None, timeout_s: float) -> str:
    """Return the only org that has a row with this id. Raises `Failure` when none or several have."""
    found = get_json(base_url(url), f"/search?q={quote(row_id, safe='')}", timeout_s)
    orgs = sorted({item["org_id"] for item in found["items"] if item["kind"] == kind and item["id"] == row_id})
    match orgs:
        case [org_id]:
            return str(org_id)
        case []:
            raise Failure(f"no org has the {kind} {printable(row_id)!r}: check the id; its retention may have expired")
        case _:
            raise Failure(f"{len(orgs)} orgs have the {kind} {row_id}: add --org, one of {printable(', '.join(orgs))}")


def _show(parts: tuple[str, ...], url: str | None, timeout_s: float, *, as_json: bool, query: str = "") -> None:
    response = get_json(base_url(url), path(*parts) + (f"?{query}" if query else ""), timeout_s)
    console = out()
    if as_json:
        console.out(printable(json.dumps(response, ensure_ascii=False)), highlight=False)
    else:
        console.print(render(response), soft_wrap=False)
