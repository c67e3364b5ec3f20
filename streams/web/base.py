"""What all views share: access control, JSON or a page, problem objects, and limits for slow clients."""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path

from aiohttp import web

from schemas.base import Json
from streams.web.forward import Forwarder
from streams.web.guard import Guard, secure
from streams.web.responses import PROBLEM_TYPE, Problem, as_json, not_found, prefers_html
from streams.web.source import ShardWithPosition, Source
from streams.web.times import time_or_null, time_text
from topics.partitioner import partition_of

log = logging.getLogger(__name__)

Render = Callable[[str, Json], str]
STATIC = Path(__file__).parent / "static"

ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}", re.ASCII)
"""Any id of ours; nothing has another one."""

SEND_TIMEOUT_S = 30.0
"""A client that has not taken its response by then is disconnected."""

_WITHOUT_ACCESS = (HTTPStatus.UNAUTHORIZED, HTTPStatus.MISDIRECTED_REQUEST)
_CONTENT_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


def _static_files() -> dict[str, tuple[bytes, str]]:
    """Return all static files by name: few, small, and read once."""
    return {
        path.name: (path.read_bytes(), _CONTENT_TYPES[path.suffix])
        for path in sorted(STATIC.iterdir())
        if path.suffix in _CONTENT_TYPES
    }


@dataclass(frozen=True, slots=True)
class ViewResponse:
    """What a view returns: JSON for programs, and the template that shows it to people, with what only people need."""

    template: str
    value: Json
    context: Json = field(default_factory=dict)
    status: int = 200


Handler = Callable[[web.Request], Awaitable[ViewResponse | web.Response]]


class BaseSite:
    """Serves views. Without `render` there are no pages; without `token` all clients of this machine have access."""

    def __init__(self, source: Source, render: Render | None, token: str | None) -> None:
        self.source = source
        self.forwarder = Forwarder(token)
        self._render = render
        self._files = _static_files()
        self._guard = Guard(token)

    def serve(self, app: web.Application, views: Mapping[str, Handler]) -> None:
        """Add the paths of `views` and the static files to `app`, and what precedes all of them."""
        for path, view in {**views, "/static/{name}": self.static}.items():
            app.router.add_get(path, self._handler(view))
        app.middlewares.append(self._middleware)
        app.on_cleanup.append(self._close)

    async def _close(self, _: web.Application) -> None:
        await self.forwarder.close()

    def _handler(self, view: Handler) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def handle(request: web.Request) -> web.StreamResponse:
            found = await view(request)
            return self._respond(request, found) if isinstance(found, ViewResponse) else found

        return handle

    @web.middleware
    async def _middleware(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        try:
            self._guard.check(request, self.source.own_url)
            response = await handler(request)
        except Problem as problem:
            response = self._problem(request, problem)
        except web.HTTPNotFound:
            response = self._problem(request, not_found(f"there is no page {request.path}; / leads to all pages"))
        except web.HTTPException as error:
            response = self._problem(request, Problem(error.status, error.text or error.reason))
        except Exception:
            log.exception("no response to a request for %r", request.path)
            response = self._problem(request, Problem(500, "this view failed; the worker's log has the details"))
        secure(response)
        await _send(request, response)
        return response

    def _respond(self, request: web.Request, found: ViewResponse) -> web.Response:
        if self.wants_page(request):
            return self.page(found.template, found.value, found.context | {"path": request.path}, found.status)
        return as_json(found.value, status=found.status)

    def _problem(self, request: web.Request, problem: Problem) -> web.Response:
        body = {"as_of": self._as_of(request, problem), **problem.body(request.path)}
        if self.wants_page(request):
            response = self.page("problem.html", body, {"path": request.path}, problem.status)
        else:
            response = as_json(body, PROBLEM_TYPE, problem.status)
        response.headers.update(problem.headers())
        return response

    def _as_of(self, request: web.Request, problem: Problem) -> str | None:
        """Return a problem's `as_of`: of the org's partition where it is ours, else of all ours."""
        if problem.status in _WITHOUT_ACCESS:
            return None
        org_id = request.match_info.get("org", "")
        shard = self.own(partition_of(org_id, self.source.partitions)) if ID.fullmatch(org_id) else None
        return own_as_of(self.source) if shard is None else time_or_null(shard.as_of)

    def wants_page(self, request: web.Request) -> bool:
        """Return whether the client prefers HTML, as browsers do."""
        return self._render is not None and prefers_html(request.headers.get("Accept", ""))

    def page(self, template: str, value: Json, context: Json, status: int) -> web.Response:
        """Return a page: `value` is what the template calls `it`."""
        assert self._render is not None
        return web.Response(
            text=self._render(template, context | {"it": value}), content_type="text/html", status=status
        )

    def own(self, partition: int) -> ShardWithPosition | None:
        """Return this worker's shard of that partition; None where it is not assigned to this worker."""
        return next((shard for shard in self.source.shards() if shard.partition == partition), None)

    async def static(self, request: web.Request) -> ViewResponse | web.Response:
        """`/static/{name}`: the pages' style, script and logo."""
        found = self._files.get(request.match_info["name"])
        if found is None:
            raise not_found(f"there is no {request.path}")
        body, content_type = found
        return web.Response(body=body, content_type=content_type, charset="utf-8")


async def _send(request: web.Request, response: web.StreamResponse) -> None:
    """Send the response, or close the connection of a client that does not read it: it would keep it in memory."""
    try:
        async with asyncio.timeout(SEND_TIMEOUT_S):
            await response.prepare(request)
            await response.write_eof()
    except TimeoutError:
        if request.transport is not None:
            request.transport.abort()


def own_as_of(source: Source) -> str | None:
    """Return the smallest `as_of` of this worker's partitions that have read something."""
    times = [shard.as_of for shard in source.shards() if shard.as_of is not None]
    return time_text(min(times)) if times else None
