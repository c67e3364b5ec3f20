"""Responses: JSON or a page as the client prefers, and problem objects for errors (RFC 9457)."""

import json
from http import HTTPStatus
from typing import Any

from aiohttp import web
from werkzeug.datastructures import MIMEAccept
from werkzeug.http import parse_accept_header

from schemas.base import Json

JSON_TYPE = "application/json"
PROBLEM_TYPE = "application/problem+json"
RETRY_AFTER_S = 1


class Problem(Exception):
    """An error response: the HTTP status, the error and its fix in words, and members for programs."""

    def __init__(self, status: int, detail: str, *, retry_after_s: int | None = None, **members: Any) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.retry_after_s = retry_after_s
        self.members = members

    @property
    def title(self) -> str:
        """The status in words."""
        return HTTPStatus(self.status).phrase

    def body(self, path: str) -> Json:
        """Return the problem object of a request for `path`."""
        return {
            "type": "about:blank",
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
            "instance": path,
            **self.members,
        }

    def headers(self) -> dict[str, str]:
        """Return `Retry-After`, where another attempt may succeed."""
        return {} if self.retry_after_s is None else {"Retry-After": str(self.retry_after_s)}


def not_found(detail: str, **members: Any) -> Problem:
    """Make a problem: no such thing."""
    return Problem(HTTPStatus.NOT_FOUND, detail, **members)


def bad_request(detail: str) -> Problem:
    """Make a problem: a parameter can't be used."""
    return Problem(HTTPStatus.BAD_REQUEST, detail)


def unavailable(detail: str, **members: Any) -> Problem:
    """Make a problem: not now, but soon."""
    return Problem(HTTPStatus.SERVICE_UNAVAILABLE, detail, retry_after_s=RETRY_AFTER_S, **members)


def as_json(value: Any, content_type: str = JSON_TYPE, status: int = 200) -> web.Response:
    """Return `value` as ASCII JSON: no text in it can send control characters to a terminal."""
    body = json.dumps(value, separators=(",", ":")).encode()
    return web.Response(body=body, content_type=content_type, status=status)


def prefers_html(accept: str) -> bool:
    """Return whether an `Accept` header has a higher quality for text/html than for JSON (RFC 9110, 12.5.1)."""
    accepted = parse_accept_header(accept, MIMEAccept)
    return accepted.quality("text/html") > accepted.quality(JSON_TYPE)
