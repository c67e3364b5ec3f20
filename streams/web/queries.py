"""What a request asks for in its query: pages of lists, filters, switches."""

from enum import StrEnum
from typing import Any, TypeVar

from aiohttp import web

from streams.rules.store import OrgRows
from streams.web.answers import bad_request
from streams.web.order import BadPage, Place, read_cursor, read_limit

Json = dict[str, Any]
State = TypeVar("State", bound=StrEnum)


def page_asked(request: web.Request) -> tuple[int, Place | None]:
    """`?limit=` and `?cursor=`."""
    try:
        return read_limit(request.query.get("limit")), read_cursor(request.query.get("cursor"))
    except BadPage as error:
        raise bad_request(str(error)) from error


def one_of(states: type[State], text: str | None, name: str) -> State | None:
    """A state by its name; None where none was asked for."""
    if not text:
        return None
    try:
        return states(text)
    except ValueError as error:
        raise bad_request(f"{name} is one of {', '.join(states)}") from error


def flag(request: web.Request, name: str) -> bool:
    """A switch: true or false, false where it is absent."""
    text = request.query.get(name, "").lower()
    if text not in {"", "true", "1", "false", "0"}:
        raise bad_request(f"{name} is true or false")
    return text in {"true", "1"}


def listing(request: web.Request, rows: OrgRows, states: type[StrEnum]) -> Json:
    """What a list's page needs beside its items: the filters as they stand, and all there are."""
    return {
        "org_id": rows.org.org_id,
        "states": [state.value for state in states],
        "query": {name: request.query.get(name, "") for name in ("status", "q", "limit", "cursor")},
    }
