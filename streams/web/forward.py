"""Requests to other workers: the partition's owner responds, in one hop. The token goes only where it stays secret."""

import logging
from http import HTTPStatus
from typing import TypeVar
from urllib.parse import urlsplit

import aiohttp
from aiohttp import web
from pydantic import TypeAdapter
from yarl import URL

from streams.readmodel.items import problem_of
from streams.settings import is_loopback
from streams.web.responses import Problem, unavailable

log = logging.getLogger(__name__)

HOP_HEADER = "Obol-Forwarded"
DEADLINE_S = 5.0

MAX_BODY_BYTES = 64 * 1024 * 1024
"""A longer response of another worker is not used."""

_CHUNK_BYTES = 256 * 1024
_KEPT = ("Content-Type", "Retry-After", "WWW-Authenticate")
_UNREACHABLE = (TimeoutError, aiohttp.ClientError, OSError, ValueError)

Value = TypeVar("Value")


class Forwarder:
    """Asks other workers. Its client is opened at first use, in the loop that serves, and closed with the site.

    `token` is sent to https and loopback addresses only; with `insecure` (`OBOL_HTTP_FORWARD_INSECURE`) to all.
    Callers pass addresses of current members of the group, and no others.
    """

    def __init__(self, token: str | None, deadline_s: float = DEADLINE_S) -> None:
        self.insecure = False
        self._token = token
        self._deadline = aiohttp.ClientTimeout(total=deadline_s)
        self._client: aiohttp.ClientSession | None = None
        self._malformed: set[str] = set()

    async def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.close()
            self._client = None

    async def forward(self, request: web.Request, owner_url: str, what: str) -> web.Response:
        """Return the response of the worker at `owner_url` to `request`. Raises `Problem`.

        A request that was forwarded once is not forwarded again. What the client sent as credentials is not passed on:
        it was the token, which all workers share, and is sent as this worker has it.
        """
        if HOP_HEADER in request.headers:
            raise unavailable(f"{what} is moving between workers: this worker is not its owner")
        accept = request.headers.get("Accept", "*/*")
        try:
            # Only path and query of the request's target: one in absolute form must not change where this goes.
            response, body = await self._send(request.method, owner_url, request.rel_url.raw_path_qs, accept)
        except _UNREACHABLE as error:
            raise unavailable(f"{what} is owned by {owner_url}, which does not respond; it may have stopped") from error
        kept = [(name, value) for name in _KEPT for value in response.headers.getall(name, [])]
        return web.Response(body=body, status=response.status, headers=kept)

    async def ask(self, url: str, path: str, kind: TypeAdapter[Value]) -> Value | None:
        """Return what the worker at `url` has at `path`; None where it does not respond, or not with a `kind`.

        Raises `Problem` where the token may not be sent there.
        """
        try:
            response, body = await self._send("GET", url, path, "application/json")
        except _UNREACHABLE:
            return None
        if not response.ok:
            return None
        try:
            return kind.validate_json(body)
        except ValueError as error:
            if url not in self._malformed:
                self._malformed.add(url)
                log.warning("the response of %s to %s is malformed and not used: %s", url, path, problem_of(error))
            return None

    async def _send(self, method: str, url: str, path: str, accept: str) -> tuple[aiohttp.ClientResponse, bytes]:
        """Return a response and its body. Raises one of `_UNREACHABLE`, or a `Problem`."""
        headers = {HOP_HEADER: "1", "Accept": accept}
        if self._token is not None:
            self._refuse_clear_text(url)
            headers["Authorization"] = f"Bearer {self._token}"
        if self._client is None:
            self._client = aiohttp.ClientSession(timeout=self._deadline, trust_env=False, auto_decompress=False)
        target = URL(url.rstrip("/") + path, encoded=True)
        async with self._client.request(method, target, headers=headers, allow_redirects=False) as response:
            body = bytearray()
            async for chunk in response.content.iter_chunked(_CHUNK_BYTES):
                body += chunk
                if len(body) > MAX_BODY_BYTES:
                    raise ValueError(f"a body of more than {MAX_BODY_BYTES} bytes")
            return response, bytes(body)

    def _refuse_clear_text(self, url: str) -> None:
        if not (self.insecure or is_confidential(url)):
            raise Problem(
                HTTPStatus.BAD_GATEWAY,
                f"the worker at {url} is asked for this, and the token is not sent there in clear text; give that "
                "worker an https OBOL_ADVERTISED_URL, or set OBOL_HTTP_FORWARD_INSECURE=1 where the network is trusted",
            )


def is_confidential(url: str) -> bool:
    """Whether what is sent to `url` can't be read on the way: https, or this machine."""
    parts = urlsplit(url)
    return parts.scheme == "https" or is_loopback(parts.hostname or "")
