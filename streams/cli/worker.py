"""HTTP requests to a worker's web views. Any worker can answer for any org (contract, "Web views")."""

import json
import os
import time
from collections.abc import Mapping
from http import HTTPStatus
from http.client import HTTPException, HTTPMessage
from typing import IO, Final
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from schemas.base import Json
from streams.cli.context import progress
from streams.cli.failure import EXIT_NO_RESPONSE, EXIT_USAGE, Failure
from streams.cli.text import printable

DEFAULT_URL: Final = "http://127.0.0.1:6066"

_REQUEST_S: Final = 10.0
_MAX_RETRY_AFTER_S: Final = 5.0


class _NoRedirect(HTTPRedirectHandler):
    """Follows no redirect: workers send none, and another server must not get the token."""

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> None:
        """Return no request."""
        del req, fp, code, msg, headers, newurl


_OPENER: Final = build_opener(_NoRedirect)


def base_url(given: str | None, environ: Mapping[str, str] = os.environ) -> str:
    """Return `--url`, else `OBOL_ADVERTISED_URL`, else the local default. Raises `Failure` for an invalid URL."""
    url = (given or environ.get("OBOL_ADVERTISED_URL", "").strip() or DEFAULT_URL).rstrip("/")
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        msg = f"{printable(url)!r} is not a worker's URL: give --url http://host:port, or correct OBOL_ADVERTISED_URL"
        raise Failure(msg, EXIT_USAGE)
    return url


def path(*parts: str) -> str:
    """Return the URL path of the parts, quoted."""
    return "".join(f"/{quote(part, safe=':')}" for part in parts)


def get_json(url: str, target: str, timeout_s: float, environ: Mapping[str, str] = os.environ) -> Json:
    """Return the JSON response to a GET of `url` + `target`. Raises `Failure`.

    Retries a 503 after its `Retry-After`, for up to `timeout_s`: a partition may be restoring.
    """
    headers = {"Accept": "application/json"}
    if token := environ.get("OBOL_HTTP_TOKEN", "").strip():
        headers["Authorization"] = f"Bearer {token}"
    deadline = time.monotonic() + timeout_s
    with progress(counted=False) as bar:
        bar.add_task(f"waiting for {url}", total=None)
        while True:
            try:
                request = Request(url + target, headers=headers)  # noqa: S310 - the scheme is checked in base_url
                with _OPENER.open(request, timeout=_REQUEST_S) as response:
                    return _object(response.read(), url)
            except HTTPError as error:
                with error:
                    pause_s = _retry_after_s(error)
                    if error.code != HTTPStatus.SERVICE_UNAVAILABLE or time.monotonic() + pause_s > deadline:
                        raise _failure(error, url, target) from error
            except (URLError, HTTPException, OSError) as error:
                reason = getattr(error, "reason", None) or error
                msg = f"no worker answers at {url} ({reason}): start one with `make run`, or correct --url"
                raise Failure(msg, EXIT_NO_RESPONSE) from error
            time.sleep(pause_s)


def _retry_after_s(error: HTTPError) -> float:
    text = error.headers.get("Retry-After", "1")
    return min(float(text) if text.isascii() and text.isdigit() else 1.0, _MAX_RETRY_AFTER_S)


def _object(content: bytes, url: str) -> Json:
    try:
        body = json.loads(content)
    except ValueError:
        body = None
    if not isinstance(body, dict):
        raise Failure(f"the server at {url} is not an Obol worker (its response is not a JSON object): correct --url")
    return body


def _failure(error: HTTPError, url: str, target: str) -> Failure:
    """Return the failure for an error response, with the detail of its problem object (RFC 9457) if there is one."""
    try:
        problem = json.loads(error.read())
    except ValueError:
        problem = None
    detail = ""
    if isinstance(problem, dict):
        detail = printable(str(problem.get("detail") or problem.get("title") or ""))
    match error.code:
        case HTTPStatus.UNAUTHORIZED | HTTPStatus.FORBIDDEN:
            return Failure(f"{url} requires a token: set OBOL_HTTP_TOKEN to the worker's ({detail or error.code})")
        case HTTPStatus.SERVICE_UNAVAILABLE:
            message = detail or "the partition is restoring"
            return Failure(f"{url}{target} is not available yet: {message}; try again", EXIT_NO_RESPONSE)
        case HTTPStatus.NOT_FOUND:
            return Failure(detail or f"{target} does not exist: check the id and --org")
        case _:
            return Failure(f"{url}{target} returned {error.code}: {detail or error.reason}")
