"""Access control, and what a browser may do with a response."""

import base64
import binascii
import hmac
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from urllib.parse import urlsplit

from aiohttp import web

from streams.web.responses import Problem

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

SECURITY_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}

_READING = ("GET", "HEAD")
_LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})


class Guard:
    """Admits requests with the token; without a token, requests to one of this worker's own host names.

    The latter keeps a page of another site from reading views through a host name that it has let resolve to this
    machine (DNS rebinding).
    """

    def __init__(self, token: str | None) -> None:
        self._token = token.encode() if token else None

    def check(self, request: web.Request, own_url: str) -> None:
        """Raise a `Problem` unless the worker at `own_url` may respond to the request."""
        if request.method not in _READING:
            raise Problem(
                HTTPStatus.METHOD_NOT_ALLOWED,
                f"the method is {request.method}; views take GET and HEAD. Commands go through Kafka.",
            )
        if self._token is None:
            _check_host(request.host, own_url)
        elif not hmac.compare_digest(_given_token(request.headers.get("Authorization", "")), self._token):
            raise Problem(
                HTTPStatus.UNAUTHORIZED,
                "the token is missing or wrong: send Authorization: Bearer <OBOL_HTTP_TOKEN>, "
                "or enter it in a browser as the password (any user name)",
            )


def secure(response: web.StreamResponse) -> None:
    """Add the headers that keep a response from being sniffed, framed, stored or scripted."""
    for name, value in SECURITY_HEADERS.items():
        response.headers.setdefault(name, value)
    response.headers["Server"] = "obol"
    response.headers.setdefault("Vary", "Accept, Authorization")
    if response.status == HTTPStatus.UNAUTHORIZED and "WWW-Authenticate" not in response.headers:
        response.headers.add("WWW-Authenticate", 'Bearer realm="obol"')
        response.headers.add("WWW-Authenticate", 'Basic realm="obol", charset="UTF-8"')
    if response.status == HTTPStatus.METHOD_NOT_ALLOWED:
        response.headers["Allow"] = ", ".join(_READING)


def _check_host(host: str, own_url: str) -> None:
    try:
        name = urlsplit(f"//{host}").hostname
    except ValueError:
        name = None
    if name not in _LOOPBACK_NAMES and name != urlsplit(own_url).hostname:
        raise Problem(
            HTTPStatus.MISDIRECTED_REQUEST,
            "without OBOL_HTTP_TOKEN this worker responds only to its own host names; "
            "use 127.0.0.1 or the host of OBOL_ADVERTISED_URL, or set a token",
        )


def _given_token(authorization: str) -> bytes:
    """Return the bearer token, or the password of basic authentication; empty without either."""
    scheme, _, value = authorization.partition(" ")
    if scheme.lower() == "bearer":
        return value.strip().encode(errors="surrogateescape")
    if scheme.lower() == "basic":
        try:
            return base64.b64decode(value.strip(), validate=True).partition(b":")[2]
        except (binascii.Error, ValueError):
            return b""
    return b""
