"""Answers: JSON or a page as the client prefers, and problem objects for what went wrong (RFC 9457)."""

import json
from http import HTTPStatus
from typing import Any

from aiohttp import web

JSON_TYPE = "application/json"
PROBLEM_TYPE = "application/problem+json"
RETRY_AFTER_S = 1


class Problem(Exception):
    """Why there is no answer: an HTTP status, what is wrong in words, and what a program may want to know of it."""

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

    def body(self, path: str) -> dict[str, Any]:
        """The problem object about `path`."""
        return {
            "type": "about:blank",
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
            "instance": path,
            **self.members,
        }

    def headers(self) -> dict[str, str]:
        """`Retry-After`, where trying again may help."""
        return {} if self.retry_after_s is None else {"Retry-After": str(self.retry_after_s)}


def not_found(detail: str, **members: Any) -> Problem:
    """There is no such thing."""
    return Problem(HTTPStatus.NOT_FOUND, detail, **members)


def bad_request(detail: str) -> Problem:
    """The request can't be read."""
    return Problem(HTTPStatus.BAD_REQUEST, detail)


def unavailable(detail: str, **members: Any) -> Problem:
    """Not now; soon again."""
    return Problem(HTTPStatus.SERVICE_UNAVAILABLE, detail, retry_after_s=RETRY_AFTER_S, **members)


def as_json(value: Any, content_type: str = JSON_TYPE, status: int = 200) -> web.Response:
    """`value` as ASCII JSON, so that no hostile text in it can play tricks on a terminal."""
    body = json.dumps(value, separators=(",", ":")).encode()
    return web.Response(body=body, content_type=content_type, status=status)


def prefers_html(accept: str) -> bool:
    """Whether a client's `Accept` gives text/html a higher quality than JSON (RFC 9110, 12.5.1)."""
    ranges = [_media_range(part) for part in accept.split(",") if part.strip()]
    return _quality(ranges, "text", "html") > _quality(ranges, "application", "json")


def _media_range(text: str) -> tuple[str, str, float]:
    name, *parameters = (part.strip().lower() for part in text.split(";"))
    kind, _, sort = name.partition("/")
    quality = 1.0
    for parameter in parameters:
        if parameter.startswith("q="):
            try:
                quality = min(max(float(parameter[2:]), 0.0), 1.0)
            except ValueError:
                quality = 0.0
    return kind, sort, quality


def _quality(ranges: list[tuple[str, str, float]], kind: str, sort: str) -> float:
    """The quality of the most specific range that takes `kind`/`sort`."""
    for wanted in ((kind, sort), (kind, "*"), ("*", "*")):
        for range_kind, range_sort, quality in ranges:
            if (range_kind, range_sort) == wanted:
                return quality
    return 0.0
