"""Every path of the contract, served by the worker that was asked or by the one that owns the partition."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final, TypeVar

from aiohttp import web
from pydantic import TypeAdapter
from typing_extensions import TypedDict

from schemas.base import Json
from streams.billing.prices import PriceRecord
from streams.lifecycle.deployment import DeploymentStatus
from streams.lifecycle.instance import InstanceState
from streams.meters import METERS, unit_of
from streams.metrics.census import Censuses
from streams.readmodel.items import FoundItem, Head, OrgItem, Partition
from streams.rules.rows import Deployment, Instance, Replica
from streams.rules.store import OrgRows
from streams.web import charts, shapes, usage
from streams.web import explain as explaining
from streams.web import search as searching
from streams.web.base import ID, BaseSite, Render, ViewResponse, own_as_of
from streams.web.forward import HOP_HEADER
from streams.web.history import History
from streams.web.lookup import Lookup, NoLookup
from streams.web.paging import Page, Place, SortedRows, SortedTables, page_of, place_of, write_cursor
from streams.web.queries import flag, label, listing, one_of, requested_page
from streams.web.responses import Problem, bad_request, not_found, unavailable
from streams.web.search import ReadModel
from streams.web.shapes import Valuation
from streams.web.source import ShardWithPosition, Source
from streams.web.summary import Summaries, fleet, smallest, unknown
from streams.web.tables import Tables
from streams.web.times import time_or_null, time_text
from topics.partitioner import partition_of

Scrape = Callable[[str], Awaitable[tuple[bytes, str]]]
Item = TypeVar("Item")

ON_ORG_PAGE: Final = 25
ON_PAGE: Final = 100
"""Windows, replicas and changes of state on the page of an entity; their own lists have all of them."""

MAX_NESTED: Final = 10_000
"""Windows or replicas in one page of a list of entities: it ends early rather than grow without bound."""

_MAX_HISTORY: Final = 20


class _Partitions(TypedDict):
    items: list[Partition]


class _Orgs(TypedDict):
    items: list[OrgItem]
    next: str | None
    heads: list[Head]


class _Found(TypedDict):
    items: list[FoundItem]
    heads: list[Head]


_PARTITIONS: Final = TypeAdapter[Any](_Partitions)
_ORGS: Final = TypeAdapter[Any](_Orgs)
_FOUND: Final = TypeAdapter[Any](_Found)


class Site(BaseSite):
    """The views of one worker. `scrape` returns `/metrics` (body, content type) for an `Accept` header."""

    def __init__(
        self,
        source: Source,
        *,
        summaries: Summaries | None = None,
        render: Render | None = None,
        token: str | None = None,
        lookup: Lookup | None = None,
        scrape: Scrape | None = None,
        read_model: ReadModel | None = None,
    ) -> None:
        super().__init__(source, render, token)
        self.summaries = summaries or Summaries(source, Censuses(source))
        self._lookup = lookup or NoLookup()
        self._history = History(self._lookup)
        self._sorted = SortedTables()
        self._scrape = scrape
        self._read_model = read_model
        self._tables = Tables(
            source,
            of_org=self._of_org,
            of_partition=self._of_partition,
            ask_others=self._ask_others,
            check_all_ready=self._check_all_ready,
        )

    def mount(self, app: web.Application) -> None:
        """Add every view to `app`."""
        views = {
            "/": self.fleet,
            "/partitions": self.partitions,
            "/orgs": self.orgs,
            "/search": self.search,
            "/prices": self.prices,
            "/health": self.health,
            "/ready": self.ready,
            "/metrics": self.metrics,
            "/orgs/{org}": self.org,
            "/orgs/{org}/deployments": self.deployments,
            "/orgs/{org}/deployments/{id}": self.deployment,
            "/orgs/{org}/deployments/{id}/replicas": self.replicas,
            "/orgs/{org}/replicas/{id}": self.replica,
            "/orgs/{org}/replicas/{id}/windows": self.replica_windows,
            "/orgs/{org}/instances": self.instances,
            "/orgs/{org}/instances/{id}": self.instance,
            "/orgs/{org}/instances/{id}/windows": self.instance_windows,
            "/orgs/{org}/windows/{id}": self.window,
            "/orgs/{org}/usage": self.usage,
            "/orgs/{org}/explain/{id}": self.explain,
        }
        self.serve(app, {**views, **self._tables.views()})

    # One org, one partition: its owner responds.

    async def _of_org(
        self, request: web.Request, make: Callable[[Valuation, OrgRows], ViewResponse | Awaitable[ViewResponse]]
    ) -> ViewResponse | web.Response:
        """Respond from the org's rows where its partition is ours and restored; else ask its owner."""
        org_id = request.match_info["org"]
        if not ID.fullmatch(org_id):
            raise not_found(f"{org_id!a} is not an org id: letters, digits, '.', '_' and '-', at most 128")
        partition = partition_of(org_id, self.source.partitions)
        shard = await self._of_partition(request, partition, f"org {org_id} (partition {partition})")
        if isinstance(shard, web.Response):
            return shard
        org = shard.store.orgs.get(org_id)
        if org is None:
            raise not_found(f"there is no org {org_id}: no record of it was read", as_of=time_or_null(shard.as_of))
        made = make(Valuation(self.source.prices, self.source.switches, partition, shard.as_of or 0), org)
        return made if isinstance(made, ViewResponse) else await made

    async def _of_partition(self, request: web.Request, partition: int, what: str) -> ShardWithPosition | web.Response:
        """Return the partition where it is ours and restored; else its owner's response."""
        shard = self.own(partition)
        if shard is None:
            return await self._forward(request, partition, what)
        if not shard.ready:
            raise _restoring(shard)
        return shard

    async def _forward(self, request: web.Request, partition: int, what: str) -> web.Response:
        owner_url = self.source.owner_url(partition)
        if owner_url is None or owner_url.rstrip("/") == self.source.own_url.rstrip("/"):
            raise unavailable(f"{what} has no owner at the moment: partitions are moving between workers")
        return await self.forwarder.forward(request, owner_url, what)

    async def org(self, request: web.Request) -> ViewResponse | web.Response:
        """`/orgs/{org}`."""

        def make(valuation: Valuation, org: OrgRows) -> ViewResponse:
            context = {
                "deployments": _deployments(org, self._first(org, Deployment.TABLE, org.deployments, _any)),
                "instances": [
                    shapes.instance(valuation, org, row)
                    for row in self._first(org, Instance.TABLE, org.instances, _not_destroyed)
                ],
                "currency": self.source.currency,
                "picture": usage.last_days(org, valuation.as_of),
            }
            return ViewResponse("org.html", _as_of(valuation, shapes.org(valuation, org)), context)

        return await self._of_org(request, make)

    def _first(self, org: OrgRows, name: str, table: Mapping[str, Any], keep: Callable[[Any], bool]) -> list[Any]:
        rows: SortedRows[Any] = self._sorted.of(org.org.org_id, name, table)
        return rows.page(ON_ORG_PAGE, None, keep).items

    async def deployments(self, request: web.Request) -> ViewResponse | web.Response:
        """`/orgs/{org}/deployments`; also `?status=` and `?q=` (how the id begins)."""
        status = one_of(DeploymentStatus, request.query.get("status"), "status")
        start = request.query.get("q", "")

        labelled = label(request)

        def keep(row: Deployment) -> bool:
            named = row.deployment_id.startswith(start) and labelled(row.labels)
            return named and (status is None or row.status is status)

        def make(valuation: Valuation, org: OrgRows) -> ViewResponse:
            limit, after = requested_page(request)
            page = self._sorted.of(org.org.org_id, Deployment.TABLE, org.deployments).page(limit, after, keep)
            value = _bounded(request, page, _deployments(org, page.items), "replicas")
            return ViewResponse("deployments.html", _as_of(valuation, value), listing(request, org, DeploymentStatus))

        return await self._of_org(request, make)

    async def instances(self, request: web.Request) -> ViewResponse | web.Response:
        """`/orgs/{org}/instances`, destroyed ones only with `?include_destroyed=true` (I11); also `?status=`, `?q=`."""
        state = one_of(InstanceState, request.query.get("status"), "status")
        start = request.query.get("q", "")
        all_of_them = flag(request, "include_destroyed") or state is InstanceState.DESTROYED

        labelled = label(request)

        def keep(row: Instance) -> bool:
            shown = all_of_them or row.state is not InstanceState.DESTROYED
            named = row.instance_id.startswith(start) and labelled(row.labels)
            return shown and named and (state is None or row.state is state)

        def make(valuation: Valuation, org: OrgRows) -> ViewResponse:
            limit, after = requested_page(request)
            page = self._sorted.of(org.org.org_id, Instance.TABLE, org.instances).page(limit, after, keep)
            shown = (shapes.instance(valuation, org, row) for row in page.items)
            context = listing(request, org, InstanceState) | {"include_destroyed": all_of_them}
            value = _bounded(request, page, shown, "windows")
            return ViewResponse("instances.html", _as_of(valuation, value), context)

        return await self._of_org(request, make)

    async def deployment(self, request: web.Request) -> ViewResponse | web.Response:
        """`/orgs/{org}/deployments/{id}`."""

        def make(valuation: Valuation, org: OrgRows) -> ViewResponse:
            row = _get(valuation, org, "deployment", org.deployments, request)
            (value,) = _deployments(org, [row])
            return ViewResponse("deployment.html", _as_of(valuation, value), {"org_id": org.org.org_id})

        return await self._of_org(request, make)

    async def replicas(self, request: web.Request) -> ViewResponse | web.Response:
        """`/orgs/{org}/deployments/{id}/replicas`: all of them, a page at a time."""

        def make(valuation: Valuation, org: OrgRows) -> ViewResponse:
            row = _get(valuation, org, "deployment", org.deployments, request)
            found = shapes.replicas_of(org, row.deployment_id)[row.deployment_id]
            page = page_of(found, shapes.replica_place, *requested_page(request))
            value = _listed(request, [shapes.replica_of(one) for one in page.items], page.last)
            context = {"org_id": org.org.org_id, "owner_id": row.deployment_id}
            return ViewResponse("replicas.html", _as_of(valuation, value), context)

        return await self._of_org(request, make)

    async def replica(self, request: web.Request) -> ViewResponse | web.Response:
        """`/orgs/{org}/replicas/{id}`."""

        async def make(valuation: Valuation, org: OrgRows) -> ViewResponse:
            row = _get(valuation, org, "replica", org.replicas, request)
            value = _as_of(valuation, shapes.replica(valuation, org, row))
            return ViewResponse("replica.html", value, await self._life(request, valuation, "replica", row))

        return await self._of_org(request, make)

    async def replica_windows(self, request: web.Request) -> ViewResponse | web.Response:
        """`/orgs/{org}/replicas/{id}/windows`: all of them, a page at a time."""

        def make(valuation: Valuation, org: OrgRows) -> ViewResponse:
            row = _get(valuation, org, "replica", org.replicas, request)
            return _windows(request, valuation, org, row, f"replicas/{row.replica_id}")

        return await self._of_org(request, make)

    async def instance(self, request: web.Request) -> ViewResponse | web.Response:
        """`/orgs/{org}/instances/{id}`."""

        async def make(valuation: Valuation, org: OrgRows) -> ViewResponse:
            row = _get(valuation, org, "instance", org.instances, request)
            value = _as_of(valuation, shapes.instance(valuation, org, row))
            return ViewResponse("instance.html", value, await self._life(request, valuation, "instance", row))

        return await self._of_org(request, make)

    async def instance_windows(self, request: web.Request) -> ViewResponse | web.Response:
        """`/orgs/{org}/instances/{id}/windows`: all of them, a page at a time."""

        def make(valuation: Valuation, org: OrgRows) -> ViewResponse:
            row = _get(valuation, org, "instance", org.instances, request)
            return _windows(request, valuation, org, row, f"instances/{row.instance_id}")

        return await self._of_org(request, make)

    async def _life(self, request: web.Request, valuation: Valuation, kind: str, row: Replica | Instance) -> Json:
        """Return what a page shows beside an entity: its changes of state. Programs read these in their topic."""
        changes: list[Json] = []
        if self.wants_page(request):
            entity = f"{kind}:{row.row_id}"
            changes = await self._history.of(valuation.partition, row.org_id, entity, row.changes_made, row.created_at)
        return {"org_id": row.org_id, "history": changes, "most": ON_PAGE}

    async def usage(self, request: web.Request) -> ViewResponse | web.Response:
        """`/orgs/{org}/usage?from=&until=`: usage, credits and cost by day (U1)."""

        def make(valuation: Valuation, org: OrgRows) -> ViewResponse:
            span = usage.requested_span(request, valuation.as_of)
            rows = usage.rows_of(org, span)
            page = page_of(rows, usage.place, *requested_page(request))
            value = _listed(request, [usage.item(row) for row in page.items], page.last)
            value |= {"from": span.start, "until": span.until, **usage.month(valuation, org)}
            context = {
                "org_id": org.org.org_id,
                "picture": usage.picture(rows, span),
                "limit": request.query.get("limit", ""),
                "currency": self.source.currency,
            }
            return ViewResponse("usage.html", _as_of(valuation, value), context)

        return await self._of_org(request, make)

    async def window(self, request: web.Request) -> ViewResponse | web.Response:
        """`/orgs/{org}/windows/{window_id}`."""

        def make(valuation: Valuation, org: OrgRows) -> ViewResponse:
            window_id = request.match_info["id"]
            row = org.windows.get(window_id)
            if row is None:
                raise _unknown(valuation, org, "window", window_id)
            owner = {"owner_id": row.owner_id, "deployment_id": row.deployment_id}
            value = _as_of(valuation, shapes.window(valuation, row) | owner)
            return ViewResponse("window.html", value, {"org_id": org.org.org_id})

        return await self._of_org(request, make)

    async def explain(self, request: web.Request) -> ViewResponse | web.Response:
        """`/orgs/{org}/explain/{usage_id}`."""
        text = request.match_info["id"]
        try:
            usage_id = explaining.read_usage_id(text)
        except explaining.NotAUsageId as error:
            raise bad_request(str(error)) from error

        async def make(valuation: Valuation, org: OrgRows) -> ViewResponse:
            owner = explaining.owner_of(org, usage_id)
            if owner is None:
                raise _unknown(valuation, org, usage_id.meter.owner, usage_id.owner_id)
            piece = explaining.evaluate(valuation, org, owner, usage_id)
            sent = None if piece.event_id is None else await self._sent(valuation, piece)
            value = explaining.explain(valuation, text, org.org.org_id, piece, self.source.currency, sent)
            context = {"org_id": org.org.org_id, "owner_id": usage_id.owner_id}
            return ViewResponse("explain.html", _as_of(valuation, value), context)

        return await self._of_org(request, make)

    async def _sent(self, valuation: Valuation, piece: explaining.Piece) -> Json | None:
        """Return where in Kafka the usage event is, and the tick or the change that has its time."""
        window = piece.window
        if window is None or piece.event_id is None:
            return None
        event = await self._lookup.usage(valuation.partition, piece.event_id, piece.end_ms)
        if event is None:
            return None
        closed_by = window.closed_by
        if METERS[window.meter].settles and closed_by is not None and closed_by.timestamp == event.timestamp:
            # A change settles in its own transaction what an instance owes (I2).
            return {"usage": event.origin(), "sent_by": shapes.origin(valuation, closed_by)}
        tick = await self._lookup.tick(valuation.partition, event.timestamp)
        return {"usage": event.origin(), "sent_by": None if tick is None else tick.origin()}

    # All partitions, this worker, or neither.

    async def _parts(self, request: web.Request) -> list[Json]:
        """Return a summary of every partition; of this worker's alone where another worker asks."""
        own = {part["partition"]: part for part in await self.summaries.own()}
        if HOP_HEADER in request.headers:
            return list(own.values())
        owners = {
            partition: self.source.owner_url(partition)
            for partition in range(self.source.partitions)
            if partition not in own
        }
        responses = await self._ask_others("/partitions", _PARTITIONS)
        others = {part["partition"]: part for found in responses for part in found["items"]}
        known = others | own
        return [
            known[partition] if partition in known else unknown(partition, owners.get(partition))
            for partition in range(self.source.partitions)
        ]

    async def fleet(self, request: web.Request) -> ViewResponse | web.Response:
        """`/`: 503 while a partition is without its rows, for a sum over the others would be wrong."""
        found = None
        if self._read_model is not None:
            found = await self._read_model.parts()
        value = fleet(await self._parts(request) if found is None else found.items, self.source.currency)
        value["read_model"] = None if found is None else {"age_ms": found.age_ms}
        if value["complete"]:
            return ViewResponse("fleet.html", value, {"hours": charts.last_hours(value["hours"])})
        problem = unavailable("some partitions don't have all their rows yet; see partitions", **value)
        if self.wants_page(request):
            response = self.page("fleet.html", value, {"path": request.path}, problem.status)
            response.headers.update(problem.headers())
            return response
        raise problem

    async def partitions(self, request: web.Request) -> ViewResponse | web.Response:
        """`/partitions`: every partition's own figures."""
        parts = await self._parts(request)
        return ViewResponse("plain.html", {"items": parts, "next": None, "as_of": smallest(parts)})

    async def orgs(self, request: web.Request) -> ViewResponse | web.Response:
        """`/orgs`: every org, sorted by id, over all partitions."""
        limit, after = requested_page(request)
        start = after[1] if after is not None else ""
        return ViewResponse("orgs.html", await self._orgs(request, start, limit))

    async def _orgs(self, request: web.Request, start: str, limit: int) -> Json:
        if self._read_model is not None and HOP_HEADER not in request.headers:
            found = await self._read_model.orgs(start, limit + 1)
            if found is not None:
                return _orgs_page(found.items, limit, {"as_of": found.as_of, "read_model": {"age_ms": found.age_ms}})
        items, heads, more = searching.orgs(self.source, start, limit + 1), searching.heads(self.source), False
        if HOP_HEADER not in request.headers:
            cursor = write_cursor("/orgs", (0, start))
            for other in await self._ask_others(f"/orgs?limit={limit}&cursor={cursor}", _ORGS):
                items += other["items"]
                heads += other["heads"]
                more |= other["next"] is not None
            self._check_all_ready(heads)
        items.sort(key=lambda item: item["org_id"])
        return _orgs_page(items, limit, {"as_of": smallest(heads), "heads": heads, "read_model": None}, more=more)

    async def search(self, request: web.Request) -> ViewResponse | web.Response:
        """`/search?q=`: what has that id, or begins with it, in any org."""
        text = request.query.get("q", "").strip()
        found: Json = {"q": text, "items": [], "next": None, "as_of": own_as_of(self.source), "read_model": None}
        if not ID.fullmatch(text):
            return ViewResponse("search.html", found)
        if self._read_model is not None and HOP_HEADER not in request.headers:
            copy = await self._read_model.search(text, searching.MOST_FOUND)
            if copy is not None:
                found |= {"items": copy.items, "as_of": copy.as_of, "read_model": {"age_ms": copy.age_ms}}
                return ViewResponse("search.html", found)
        items, heads = searching.search(self.source, text), searching.heads(self.source)
        if HOP_HEADER not in request.headers:
            for other in await self._ask_others(f"/search?q={text}", _FOUND):
                items += other["items"]
                heads += other["heads"]
            self._check_all_ready(heads)
        items.sort(key=lambda item: (item["id"] != text, item["id"], item["org_id"]))
        found |= {"items": items[: searching.MOST_FOUND], "as_of": smallest(heads), "heads": heads}
        return ViewResponse("search.html", found)

    async def _ask_others(self, path: str, kind: TypeAdapter[Any]) -> list[Any]:
        own = {shard.partition for shard in self.source.shards()}
        owners = {
            self.source.owner_url(partition) for partition in range(self.source.partitions) if partition not in own
        }
        urls = sorted(url for url in owners if url is not None and url != self.source.own_url)
        responses = await asyncio.gather(*(self.forwarder.ask(url, path, kind) for url in urls))
        return [response for response in responses if response is not None]

    def _check_all_ready(self, heads: list[Json]) -> None:
        """Raise `Problem` unless every partition was read with its rows: what is missing may be what is looked for."""
        ready = {head["partition"] for head in heads if head["state"] == "ready"}
        missing = [partition for partition in range(self.source.partitions) if partition not in ready]
        if missing:
            raise unavailable(f"partitions {missing} don't have all their rows at the moment")

    async def prices(self, request: web.Request) -> ViewResponse | web.Response:
        """`/prices`: each profile's price, and since when; every worker has all of them."""
        profiles = sorted(self.source.prices.history.items(), key=_price_place)
        page = page_of(profiles, _price_place, *requested_page(request))
        items = [_price(profile, records, self.source.currency) for profile, records in page.items]
        value = _listed(request, items, page.last) | {"as_of": time_or_null(self.source.prices_as_of)}
        return ViewResponse("prices.html", value)

    async def health(self, _: web.Request) -> ViewResponse | web.Response:
        """`/health`: the process runs, and its event loop responds. `problems`: what an operator should look at."""
        problems = [
            *self.source.disagreements,
            *self.source.open_transactions,
            *_blocked(self.source.shards()),
        ]
        return ViewResponse("plain.html", {"status": "ok", "problems": problems, "as_of": own_as_of(self.source)})

    async def ready(self, _: web.Request) -> ViewResponse | web.Response:
        """`/ready`: every assigned partition, if any, has its rows and is not blocked."""
        shards = self.source.shards()
        value: Json = {
            "ready": self.source.is_assigned and all(shard.ready and shard.blocked is None for shard in shards),
            "partitions": [_progress(shard) for shard in shards],
            "as_of": own_as_of(self.source),
        }
        if not self.source.is_assigned:
            raise unavailable("this worker has had no assignment of partitions yet", **value)
        if not value["ready"]:
            waiting = sum(not shard.ready for shard in shards)
            reasons = [f"{waiting} of {len(shards)} partitions are restoring their rows"] if waiting else []
            raise unavailable("; ".join([*reasons, *_blocked(shards)]), **value)
        return ViewResponse("plain.html", value)

    async def metrics(self, request: web.Request) -> ViewResponse | web.Response:
        """`/metrics`, in Prometheus's format."""
        if self._scrape is None:
            raise not_found("this worker has no metrics")
        body, content_type = await self._scrape(request.headers.get("Accept", ""))
        return web.Response(body=body, headers={"Content-Type": content_type})


def _any(_: object) -> bool:
    return True


def _not_destroyed(row: Instance) -> bool:
    return row.state is not InstanceState.DESTROYED


def _as_of(valuation: Valuation, value: Json) -> Json:
    return value | {"as_of": time_text(valuation.as_of)}


def _deployments(org: OrgRows, rows: list[Deployment]) -> list[Json]:
    replicas = shapes.replicas_of(org, *(row.deployment_id for row in rows))
    return [shapes.deployment(row, replicas[row.deployment_id]) for row in rows]


def _windows(
    request: web.Request, valuation: Valuation, org: OrgRows, owner: Replica | Instance, path: str
) -> ViewResponse:
    """Return a page of the list of a replica's or an instance's windows."""
    page = page_of(shapes.windows_of(org, owner), shapes.window_place, *requested_page(request))
    value = _listed(request, [shapes.window(valuation, row) for row in page.items], page.last)
    context = {"org_id": org.org.org_id, "owner_id": owner.row_id, "owner_path": f"/orgs/{org.org.org_id}/{path}"}
    return ViewResponse("windows.html", _as_of(valuation, value), context)


def _listed(request: web.Request, items: list[Json], last: Place | None) -> Json:
    return {"items": items, "next": write_cursor(request.path, last)}


def _bounded(request: web.Request, page: Page[Any], shown: Iterable[Json], nested: str) -> Json:
    """Return a page of a list, shorter where the `nested` lists of its items are long: `next` continues after it."""
    items: list[Json] = []
    weight = 0
    for item in shown:
        if items and weight + len(item[nested]) > MAX_NESTED:
            return _listed(request, items, place_of(page.items[len(items) - 1]))
        items.append(item)
        weight += len(item[nested])
    return _listed(request, items, page.last)


def _orgs_page(items: list[Json], limit: int, rest: Json, *, more: bool = False) -> Json:
    items, more = items[:limit], more or len(items) > limit
    last = (0, items[-1]["org_id"]) if more and items else None
    return {"items": items, "next": write_cursor("/orgs", last), **rest}


def _restoring(shard: ShardWithPosition) -> Problem:
    return unavailable(
        f"partition {shard.partition} is restoring its rows: {shard.restored_rows} of "
        f"{'an unknown number' if shard.restore_total is None else shard.restore_total} changelog records are read",
        **_progress(shard),
    )


def _blocked(shards: Iterable[ShardWithPosition]) -> list[str]:
    return [f"partition {shard.partition}: {shard.blocked}" for shard in shards if shard.blocked is not None]


def _progress(shard: ShardWithPosition) -> Json:
    return {
        "partition": shard.partition,
        "state": "ready" if shard.ready else "restoring",
        "restored_rows": shard.restored_rows,
        "restore_total": shard.restore_total,
        "blocked": shard.blocked,
    }


def _get(valuation: Valuation, org: OrgRows, kind: str, table: Mapping[str, Item], request: web.Request) -> Item:
    row = table.get(request.match_info["id"])
    if row is None:
        raise _unknown(valuation, org, kind, request.match_info["id"])
    return row


def _unknown(valuation: Valuation, org: OrgRows, kind: str, entity_id: str) -> Problem:
    listed = "instances?include_destroyed=true" if kind == "instance" else "deployments"
    return not_found(
        f"org {org.org.org_id} has no {kind} {entity_id!a}; it may belong to another org, or its row has left after "
        f"the retention. /orgs/{org.org.org_id}/{listed} lists what there is",
        as_of=time_text(valuation.as_of),
    )


def _price_place(known: tuple[str, list[PriceRecord]]) -> Place:
    profile, records = known
    return records[0].at_ms, profile


def _price(profile: str, records: list[PriceRecord], currency: str) -> Json:
    now = records[-1]
    return {
        "profile": profile,
        "price": now.price,
        "currency": currency,
        "unit": unit_of(profile),
        "since": time_text(now.at_ms),
        "history": [{"price": one.price, "since": time_text(one.at_ms)} for one in records[-_MAX_HISTORY:]],
    }
