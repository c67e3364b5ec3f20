"""Asking a worker's web views. Any worker answers for any org (contract, "Web views")."""

import json
import os
import time
from collections.abc import Mapping
from http import HTTPStatus
from http.client import HTTPException, HTTPMessage
from typing import IO, Any, Final
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from streams.cli.context import progress
from streams.cli.failure import EXIT_NO_ANSWER, EXIT_USAGE, Failure
from streams.cli.words import printable

DEFAULT_URL: Final = "http://127.0.0.1:6066"

_REQUEST_S: Final = 10.0
_LONGEST_PAUSE_S: Final = 5.0

Json = dict[str, Any]


class _NoRedirect(HTTPRedirectHandler):
    """A worker answers itself; whatever sends us elsewhere must not get the token."""

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> None:
        """Follow nothing."""
        del req, fp, code, msg, headers, newurl


_OPENER: Final = build_opener(_NoRedirect)


def base_url(given: str | None, environ: Mapping[str, str] = os.environ) -> str:
    """Where to ask: `--url`, else `OBOL_ADVERTISED_URL`, else the local default. Raises `Failure`."""
    url = (given or environ.get("OBOL_ADVERTISED_URL", "").strip() or DEFAULT_URL).rstrip("/")
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        msg = f"{printable(url)!r} is no worker's address: write --url http://host:port, or correct OBOL_ADVERTISED_URL"
        raise Failure(msg, EXIT_USAGE)
    return url


def path(*parts: str) -> str:
    """A path of the web views from its parts, each of which may hold any character."""
    return "".join(f"/{quote(part, safe=':')}" for part in parts)


def ask(url: str, where: str, timeout_s: float, environ: Mapping[str, str] = os.environ) -> Json:
    """The JSON answer to a GET; waits while the partition is restoring (503, `Retry-After`). Raises `Failure`."""
    headers = {"Accept": "application/json"}
    if token := environ.get("OBOL_HTTP_TOKEN", "").strip():
        headers["Authorization"] = f"Bearer {token}"
    deadline = time.monotonic() + timeout_s
    with progress(counted=False) as bar:
        bar.add_task(f"asking {url}", total=None)
        while True:
            try:
                with _OPENER.open(Request(url + where, headers=headers), timeout=_REQUEST_S) as answer:  # noqa: S310 - http, judged in base_url
                    return _object(answer.read(), url)
            except HTTPError as error:
                with error:
                    pause_s = _retry_after_s(error)
                    if error.code != HTTPStatus.SERVICE_UNAVAILABLE or time.monotonic() + pause_s > deadline:
                        raise _refused(error, url, where) from error
            except (URLError, HTTPException, OSError) as error:
                reason = getattr(error, "reason", None) or error
                msg = f"no worker answers at {url} ({reason}): start one with `make run`, or give its --url"
                raise Failure(msg, EXIT_NO_ANSWER) from error
            time.sleep(pause_s)


def _retry_after_s(error: HTTPError) -> float:
    text = error.headers.get("Retry-After", "1")
    return min(float(text) if text.isascii() and text.isdigit() else 1.0, _LONGEST_PAUSE_S)


def _object(content: bytes, url: str) -> Json:
    try:
        answer = json.loads(content)
    except ValueError as error:
        raise Failure(f"what answers at {url} is no Obol worker (no JSON): give its --url") from error
    if not isinstance(answer, dict):
        raise Failure(f"what answers at {url} is no Obol worker (no JSON object): give its --url")
    return answer


def _refused(error: HTTPError, url: str, where: str) -> Failure:
    """An error answer in one line: the problem object's own words (RFC 9457) where there is one."""
    try:
        problem = json.loads(error.read())
    except ValueError:
        problem = None
    told = ""
    if isinstance(problem, dict):
        told = str(problem.get("detail") or problem.get("title") or "")
    match error.code:
        case HTTPStatus.UNAUTHORIZED | HTTPStatus.FORBIDDEN:
            return Failure(
                f"{url} wants a token: set OBOL_HTTP_TOKEN to the worker's ({printable(told) or error.code})"
            )
        case HTTPStatus.SERVICE_UNAVAILABLE:
            message = printable(told) or "the partition is restoring"
            return Failure(f"{url}{where} can't be answered yet: {message}; try again", EXIT_NO_ANSWER)
        case HTTPStatus.NOT_FOUND:
            return Failure(printable(told) or f"{where} is not there: check the id and the --org")
        case _:
            return Failure(f"{url}{where} answered {error.code}: {printable(told) or error.reason}")
