"""One hop to the worker that owns the partition: its answer comes back unchanged."""

from typing import Any

import aiohttp
from aiohttp import web

from streams.web.answers import unavailable

HOP_HEADER = "Obol-Forwarded"
DEADLINE_S = 5.0

_SENT_ON = ("Accept", "Authorization")
_KEPT = ("Content-Type", "Retry-After", "WWW-Authenticate")


class Forwarder:
    """Asks other workers. Its client is opened at first use, in the loop that serves, and closed with the site."""

    def __init__(self, token: str | None, deadline_s: float = DEADLINE_S) -> None:
        self._token = token
        self._deadline = aiohttp.ClientTimeout(total=deadline_s)
        self._client: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Let go of the connections."""
        if self._client is not None:
            await self._client.close()
            self._client = None

    async def forward(self, request: web.Request, owner_url: str, what: str) -> web.Response:
        """Ask `owner_url` for what `request` asks. A request that was forwarded once is not forwarded again."""
        if HOP_HEADER in request.headers:
            raise unavailable(f"{what} is moving between workers: this one was taken for its owner and is not")
        headers = {name: request.headers[name] for name in _SENT_ON if name in request.headers}
        headers[HOP_HEADER] = "1"
        try:
            async with self._open().request(
                request.method, owner_url.rstrip("/") + request.raw_path, headers=headers, allow_redirects=False
            ) as answer:
                body = await answer.read()
                kept = [(name, value) for name in _KEPT for value in answer.headers.getall(name, [])]
                return web.Response(body=body, status=answer.status, headers=kept)
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            raise unavailable(
                f"{what} is owned by {owner_url}, which does not answer; it may just have left"
            ) from error

    async def ask(self, owner_url: str, path: str) -> dict[str, Any] | None:
        """The JSON that another worker answers to `path`; None where it does not, or not well."""
        headers = {HOP_HEADER: "1", "Accept": "application/json"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        try:
            async with self._open().get(owner_url.rstrip("/") + path, headers=headers) as answer:
                found = await answer.json() if answer.ok else None
        except (TimeoutError, aiohttp.ClientError, OSError, ValueError):
            return None
        return found if isinstance(found, dict) else None

    def _open(self) -> aiohttp.ClientSession:
        if self._client is None:
            self._client = aiohttp.ClientSession(timeout=self._deadline, trust_env=False, auto_decompress=False)
        return self._client
