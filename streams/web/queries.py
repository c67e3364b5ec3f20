"""What a request asks for in its query: a page of a list, filters, switches."""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import TypeVar

from aiohttp import web

from schemas.base import Json
from streams.rules.store import OrgRows
from streams.web.paging import BadPage, Place, read_cursor, read_limit
from streams.web.responses import bad_request

State = TypeVar("State", bound=StrEnum)


def requested_page(request: web.Request) -> tuple[int, Place | None]:
    """Return `?limit=` and `?cursor=`. Raises `Problem`."""
    try:
        return read_limit(request.query.get("limit")), read_cursor(request.path, request.query.get("cursor"))
    except BadPage as error:
        raise bad_request(str(error)) from error


def one_of(states: type[State], text: str | None, name: str) -> State | None:
    """Return a state by its name; None where `text` is empty. Raises `Problem`."""
    if not text:
        return None
    try:
        return states(text)
    except ValueError as error:
        raise bad_request(f"{name} is one of {', '.join(states)}") from error


def flag(request: web.Request, name: str) -> bool:
    """Return a switch: true or false, false where it is absent. Raises `Problem`."""
    text = request.query.get(name, "").lower()
    if text not in {"", "true", "1", "false", "0"}:
        raise bad_request(f"{name} is true or false")
    return text in {"true", "1"}


def label(request: web.Request) -> Callable[[Mapping[str, str]], bool]:
    """Return whether labels have `?label=key=value` (or, without a value, the key). Raises `Problem`."""
    text = request.query.get("label", "")
    key, has_value, value = text.partition("=")
    if text and not key:
        raise bad_request("label is a key, or key=value such as team=nlp")
    if not text:
        return lambda _: True
    return lambda labels: labels.get(key) == value if has_value else key in labels


def listing(request: web.Request, org: OrgRows, states: type[StrEnum]) -> Json:
    """Return what a list's page needs beside its items: the filters of this request, and those there are."""
    return {
        "org_id": org.org.org_id,
        "states": [state.value for state in states],
        "query": {name: request.query.get(name, "") for name in ("status", "q", "label", "limit", "cursor")},
    }
