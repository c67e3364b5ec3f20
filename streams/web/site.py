"""Every path of the contract, answered by the worker that was asked or by the one that owns the partition."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from aiohttp import web

from schemas.times import rfc3339
from streams.billing.prices import PriceRecord
from streams.lifecycle.deployment import DeploymentStatus
from streams.lifecycle.instance import InstanceState
from streams.meters import DISK_PROFILE, METERS
from streams.metrics.census import Censuses
from streams.rules.rows import Deployment, Instance, Replica
from streams.rules.store import OrgRows
from streams.web import explain as explaining
from streams.web import finding, shapes
from streams.web.answers import Problem, bad_request, not_found, unavailable
from streams.web.finding import ReadModel
from streams.web.forward import HOP_HEADER
from streams.web.frame import ID, Answer, Frame, Render, own_as_of
from streams.web.history import History
from streams.web.lookup import Lookup, NoLookup
from streams.web.order import Ordered, Orders, write_cursor
from streams.web.queries import flag, listing, one_of, page_asked
from streams.web.shapes import View
from streams.web.source import Shard, Source
from streams.web.summary import Summaries, fleet, missing, smallest
from streams.web.tables import Tables
from topics.partitioner import partition_of

Json = dict[str, Any]
Scrape = Callable[[str], Awaitable[tuple[bytes, str]]]

_MAX_HISTORY = 20


Row = TypeVar("Row")


class Site(Frame):
    """The views of one worker. `scrape` gives `/metrics` (body, content type) for an `Accept` header."""

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
        self._orders = Orders()
        self._scrape = scrape
        self._read_model = read_model
        self._tables = Tables(
            source,
            of_org=self._of_org,
            of_partition=self._of_partition,
            ask_others=self._ask_others,
            all_present=self._all_present,
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
            "/orgs/{org}/replicas/{id}": self.replica,
            "/orgs/{org}/instances": self.instances,
            "/orgs/{org}/instances/{id}": self.instance,
            "/orgs/{org}/windows/{id}": self.window,
            "/orgs/{org}/explain/{id}": self.explain,
        }
        self.serve(app, {**views, **self._tables.views()})

    # One org, one partition: its owner answers.

    async def _of_org(
        self, request: web.Request, make: Callable[[View, OrgRows], Answer | Awaitable[Answer]]
    ) -> Answer | web.Response:
        """Answer from the org's rows where its partition is ours and whole; else ask its owner."""
        org_id = request.match_info["org"]
        if not ID.fullmatch(org_id):
            raise not_found(f"{org_id!a} is no org id: letters, digits, '.', '_' and '-', at most 128")
        partition = partition_of(org_id, self.source.partitions)
        shard = await self._of_partition(request, partition, f"org {org_id} (partition {partition})")
        if isinstance(shard, web.Response):
            return shard
        rows = shard.store.orgs.get(org_id)
        if rows is None:
            raise not_found(
                f"no org {org_id} is known: nothing about it was ever read",
                as_of=shapes.time_or_null(shard.as_of),
            )
        made = make(View(self.source.prices, self.source.switches, partition, shard.as_of or 0), rows)
        return made if isinstance(made, Answer) else await made

    async def _of_partition(self, request: web.Request, partition: int, what: str) -> Shard | web.Response:
        """The partition where it is ours and has its rows; else its owner's answer."""
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

    async def org(self, request: web.Request) -> Answer | web.Response:
        """`/orgs/{org}`."""

        def make(view: View, rows: OrgRows) -> Answer:
            context = {
                "deployments": [shapes.deployment(rows, row) for row in self._first(rows, "deployments", _any)],
                "instances": [
                    shapes.instance(view, rows, row) for row in self._first(rows, "instances", _not_destroyed)
                ],
                "currency": self.source.currency,
            }
            return Answer("org.html", _as_of(view, shapes.org(view, rows)), context)

        return await self._of_org(request, make)

    def _first(self, rows: OrgRows, name: str, keep: Callable[[Any], bool]) -> list[Any]:
        order: Ordered[Any] = self._orders.of(rows.org.org_id, name, rows.table(name))
        return order.page(_ON_ORG_PAGE, None, keep).items

    async def deployments(self, request: web.Request) -> Answer | web.Response:
        """`/orgs/{org}/deployments`; also `?status=` and `?q=` (how the id begins)."""
        status = one_of(DeploymentStatus, request.query.get("status"), "status")
        start = request.query.get("q", "")

        def keep(row: Deployment) -> bool:
            return (status is None or row.status is status) and row.deployment_id.startswith(start)

        def make(view: View, rows: OrgRows) -> Answer:
            items, following = self._listed(request, rows, Deployment.TABLE, rows.deployments, keep)
            value = {"items": [shapes.deployment(rows, row) for row in items], "next": following}
            return Answer("deployments.html", _as_of(view, value), listing(request, rows, DeploymentStatus))

        return await self._of_org(request, make)

    async def instances(self, request: web.Request) -> Answer | web.Response:
        """`/orgs/{org}/instances`, destroyed ones only with `?include_destroyed=true` (I11); also `?status=`, `?q=`."""
        state = one_of(InstanceState, request.query.get("status"), "status")
        start = request.query.get("q", "")
        all_of_them = flag(request, "include_destroyed") or state is InstanceState.DESTROYED

        def keep(row: Instance) -> bool:
            shown = all_of_them or row.state is not InstanceState.DESTROYED
            return shown and (state is None or row.state is state) and row.instance_id.startswith(start)

        def make(view: View, rows: OrgRows) -> Answer:
            items, following = self._listed(request, rows, Instance.TABLE, rows.instances, keep)
            value = {"items": [shapes.instance(view, rows, row) for row in items], "next": following}
            context = listing(request, rows, InstanceState) | {"include_destroyed": all_of_them}
            return Answer("instances.html", _as_of(view, value), context)

        return await self._of_org(request, make)

    def _listed(
        self, request: web.Request, rows: OrgRows, name: str, table: Mapping[str, Any], keep: Callable[[Any], bool]
    ) -> tuple[list[Any], str | None]:
        limit, after = page_asked(request)
        page = self._orders.of(rows.org.org_id, name, table).page(limit, after, keep)
        return page.items, page.next

    async def deployment(self, request: web.Request) -> Answer | web.Response:
        """`/orgs/{org}/deployments/{id}`."""

        def make(view: View, rows: OrgRows) -> Answer:
            row = _get(view, rows, "deployment", rows.deployments, request)
            return Answer("deployment.html", _as_of(view, shapes.deployment(rows, row)), {"org_id": rows.org.org_id})

        return await self._of_org(request, make)

    async def replica(self, request: web.Request) -> Answer | web.Response:
        """`/orgs/{org}/replicas/{id}`."""

        async def make(view: View, rows: OrgRows) -> Answer:
            row = _get(view, rows, "replica", rows.replicas, request)
            value = _as_of(view, shapes.replica(view, rows, row))
            return Answer("replica.html", value, await self._life(request, view, "replica", row))

        return await self._of_org(request, make)

    async def instance(self, request: web.Request) -> Answer | web.Response:
        """`/orgs/{org}/instances/{id}`."""

        async def make(view: View, rows: OrgRows) -> Answer:
            row = _get(view, rows, "instance", rows.instances, request)
            value = _as_of(view, shapes.instance(view, rows, row))
            return Answer("instance.html", value, await self._life(request, view, "instance", row))

        return await self._of_org(request, make)

    async def _life(self, request: web.Request, view: View, kind: str, row: Replica | Instance) -> Json:
        """What a page shows beside an entity: what happened to it. Programs read that in its topic."""
        changes: list[Json] = []
        if self.wants_page(request):
            entity = f"{kind}:{row.row_id}"
            changes = await self._history.of(view.partition, row.org_id, entity, row.changes_made, row.created_at)
        return {"org_id": row.org_id, "history": changes}

    async def window(self, request: web.Request) -> Answer | web.Response:
        """`/orgs/{org}/windows/{window_id}`."""

        def make(view: View, rows: OrgRows) -> Answer:
            window_id = request.match_info["id"]
            row = rows.windows.get(window_id)
            if row is None:
                raise _unknown(view, rows, "window", window_id)
            owner = {"owner_id": row.owner_id, "deployment_id": row.deployment_id}
            value = _as_of(view, shapes.window(view, row) | owner)
            return Answer("window.html", value, {"org_id": rows.org.org_id})

        return await self._of_org(request, make)

    async def explain(self, request: web.Request) -> Answer | web.Response:
        """`/orgs/{org}/explain/{usage_id}`."""
        asked_id = request.match_info["id"]
        try:
            asked = explaining.read_usage_id(asked_id)
        except explaining.NoUsageId as error:
            raise bad_request(str(error)) from error

        async def make(view: View, rows: OrgRows) -> Answer:
            owner = explaining.owner_of(rows, asked)
            if owner is None:
                raise _unknown(view, rows, asked.meter.owner, asked.owner_id)
            piece = explaining.judge(view, rows, owner, asked)
            sent = None if piece.event_id is None else await self._sent(view, piece)
            value = explaining.explain(view, asked_id, rows.org.org_id, piece, self.source.currency, sent)
            return Answer("explain.html", _as_of(view, value), {"org_id": rows.org.org_id, "owner_id": asked.owner_id})

        return await self._of_org(request, make)

    async def _sent(self, view: View, piece: explaining.Piece) -> Json | None:
        """The usage event as it stands in Kafka, and the tick or the change whose time it has."""
        window = piece.window
        if window is None or piece.event_id is None:
            return None
        event = await self._lookup.usage(view.partition, piece.event_id, piece.end_ms)
        if event is None:
            return None
        closed_by = window.closed_by
        if METERS[window.meter].settles and closed_by is not None and closed_by.timestamp == event.timestamp:
            # A change settles in its own transaction what an instance owes (I2).
            return {"usage": event.told(), "sent_by": shapes.origin(view, closed_by)}
        tick = await self._lookup.tick(view.partition, event.timestamp)
        return {"usage": event.told(), "sent_by": None if tick is None else tick.told()}

    # All partitions, this worker, or neither.

    async def _parts(self, request: web.Request) -> list[Json]:
        """A summary of every partition; of this worker's alone where another worker asks."""
        own = {part["partition"]: part for part in await self.summaries.own()}
        if HOP_HEADER in request.headers:
            return list(own.values())
        owners = {
            partition: self.source.owner_url(partition)
            for partition in range(self.source.partitions)
            if partition not in own
        }
        answers = await self._ask_others("/partitions")
        others = {part["partition"]: part for found in answers for part in found["items"]}
        known = others | own
        return [
            known[partition] if partition in known else missing(partition, owners.get(partition))
            for partition in range(self.source.partitions)
        ]

    async def fleet(self, request: web.Request) -> Answer | web.Response:
        """`/`: 503 while a partition is without its rows, for a sum over the others would be wrong."""
        found = None
        if self._read_model is not None:
            found = await self._read_model.parts()
        value = fleet(await self._parts(request) if found is None else found.items, self.source.currency)
        value["read_model"] = None if found is None else {"age_ms": found.age_ms}
        if value["complete"]:
            return Answer("fleet.html", value)
        problem = unavailable("some partitions have not got all their rows yet; see partitions", **value)
        if self.wants_page(request):
            response = self.page("fleet.html", value, {"path": request.path}, problem.status)
            response.headers.update(problem.headers())
            return response
        raise problem

    async def partitions(self, request: web.Request) -> Answer | web.Response:
        """`/partitions`: every partition's own numbers."""
        parts = await self._parts(request)
        return Answer("plain.html", {"items": parts, "next": None, "as_of": smallest(parts)})

    async def orgs(self, request: web.Request) -> Answer | web.Response:
        """`/orgs`: every org in order of its id, over all partitions."""
        limit, after = page_asked(request)
        start = after[1] if after is not None else ""
        told = await self._orgs_told(request, start, limit)
        return Answer("orgs.html", told)

    async def _orgs_told(self, request: web.Request, start: str, limit: int) -> Json:
        if self._read_model is not None and HOP_HEADER not in request.headers:
            found = await self._read_model.orgs(start, limit + 1)
            if found is not None:
                return _orgs_page(found.items, limit, {"as_of": found.as_of, "read_model": {"age_ms": found.age_ms}})
        items, heads, more = finding.orgs(self.source, start, limit + 1), finding.heads(self.source), False
        if HOP_HEADER not in request.headers:
            cursor = write_cursor((0, start))
            for found_there in await self._ask_others(f"/orgs?limit={limit}&cursor={cursor}"):
                items += found_there["items"]
                heads += found_there["heads"]
                more |= found_there["next"] is not None
            self._all_present(heads)
        items.sort(key=lambda item: item["org_id"])
        return _orgs_page(items, limit, {"as_of": smallest(heads), "heads": heads, "read_model": None}, more=more)

    async def search(self, request: web.Request) -> Answer | web.Response:
        """`/search?q=`: what has that id, or begins with it, in whatever org."""
        asked = request.query.get("q", "").strip()
        told: Json = {"q": asked, "items": [], "next": None, "as_of": own_as_of(self.source), "read_model": None}
        if not ID.fullmatch(asked):
            return Answer("search.html", told)
        if self._read_model is not None and HOP_HEADER not in request.headers:
            found = await self._read_model.search(asked, finding.MOST_FOUND)
            if found is not None:
                told |= {"items": found.items, "as_of": found.as_of, "read_model": {"age_ms": found.age_ms}}
                return Answer("search.html", told)
        items, heads = finding.search(self.source, asked), finding.heads(self.source)
        if HOP_HEADER not in request.headers:
            for found_there in await self._ask_others(f"/search?q={asked}"):
                items += found_there["items"]
                heads += found_there["heads"]
            self._all_present(heads)
        items.sort(key=lambda item: (item["id"] != asked, item["id"], item["org_id"]))
        told |= {"items": items[: finding.MOST_FOUND], "as_of": smallest(heads), "heads": heads}
        return Answer("search.html", told)

    async def _ask_others(self, path: str) -> list[Json]:
        own = {shard.partition for shard in self.source.shards()}
        owners = {
            self.source.owner_url(partition) for partition in range(self.source.partitions) if partition not in own
        }
        urls = sorted(url for url in owners if url is not None and url != self.source.own_url)
        answers = await asyncio.gather(*(self.forwarder.ask(url, path) for url in urls))
        return [answer for answer in answers if answer is not None]

    def _all_present(self, heads: list[Json]) -> None:
        """Raise unless every partition has answered with its rows: what is missing may be just what is looked for."""
        there = {head["partition"] for head in heads if head["state"] == "ready"}
        gone = [partition for partition in range(self.source.partitions) if partition not in there]
        if gone:
            raise unavailable(f"partitions {gone} have not got all their rows at the moment")

    async def prices(self, request: web.Request) -> Answer | web.Response:
        """`/prices`: what is known of each profile, and since when; every worker knows all of them."""
        profiles = sorted(self.source.prices.history.items(), key=lambda known: (known[1][0].at_ms, known[0]))
        limit, after = page_asked(request)
        rest = [one for one in profiles if after is None or (one[1][0].at_ms, one[0]) > after]
        items, more = rest[:limit], len(rest) > limit
        last = items[-1] if items else None
        value = {
            "items": [_price(profile, records, self.source.currency) for profile, records in items],
            "next": write_cursor((last[1][0].at_ms, last[0])) if more and last else None,
            "as_of": shapes.time_or_null(self.source.prices_as_of),
        }
        return Answer("prices.html", value)

    async def health(self, _: web.Request) -> Answer | web.Response:
        """`/health`: the process is there and its loop turns."""
        return Answer("plain.html", {"status": "ok", "as_of": own_as_of(self.source)})

    async def ready(self, _: web.Request) -> Answer | web.Response:
        """`/ready`: every assigned partition, which may be none, has its rows."""
        shards = self.source.shards()
        value: Json = {
            "ready": self.source.is_assigned and all(shard.ready for shard in shards),
            "partitions": [_progress(shard) for shard in shards],
            "as_of": own_as_of(self.source),
        }
        if not self.source.is_assigned:
            raise unavailable("this worker has not been told yet which partitions are its own", **value)
        if not value["ready"]:
            waiting = sum(not shard.ready for shard in shards)
            raise unavailable(f"{waiting} of {len(shards)} partitions are restoring their rows", **value)
        return Answer("plain.html", value)

    async def metrics(self, request: web.Request) -> Answer | web.Response:
        """`/metrics`, as Prometheus reads it."""
        if self._scrape is None:
            raise not_found("this worker keeps no metrics")
        body, content_type = await self._scrape(request.headers.get("Accept", ""))
        return web.Response(body=body, headers={"Content-Type": content_type})


_ON_ORG_PAGE = 25


def _any(_: object) -> bool:
    return True


def _not_destroyed(row: Instance) -> bool:
    return row.state is not InstanceState.DESTROYED


def _as_of(view: View, value: Json) -> Json:
    return value | {"as_of": rfc3339(view.as_of)}


def _orgs_page(items: list[Json], limit: int, told: Json, *, more: bool = False) -> Json:
    more = more or len(items) > limit
    return {
        "items": items[:limit],
        "next": write_cursor((0, items[limit - 1]["org_id"])) if more else None,
        **told,
    }


def _restoring(shard: Shard) -> Problem:
    return unavailable(
        f"partition {shard.partition} is restoring its rows: {shard.restored_rows} of "
        f"{'an unknown number' if shard.restore_total is None else shard.restore_total} changelog records are read",
        **_progress(shard),
    )


def _progress(shard: Shard) -> Json:
    return {
        "partition": shard.partition,
        "state": "ready" if shard.ready else "restoring",
        "restored_rows": shard.restored_rows,
        "restore_total": shard.restore_total,
    }


def _get(view: View, rows: OrgRows, kind: str, table: Mapping[str, Row], request: web.Request) -> Row:
    row = table.get(request.match_info["id"])
    if row is None:
        raise _unknown(view, rows, kind, request.match_info["id"])
    return row


def _unknown(view: View, rows: OrgRows, kind: str, entity_id: str) -> Problem:
    listed = "instances?include_destroyed=true" if kind == "instance" else "deployments"
    return not_found(
        f"org {rows.org.org_id} has no {kind} {entity_id!a}; it may belong to another org, or its row has left after "
        f"the retention. /orgs/{rows.org.org_id}/{listed} lists what there is",
        as_of=rfc3339(view.as_of),
    )


def _price(profile: str, records: list[PriceRecord], currency: str) -> Json:
    now = records[-1]
    return {
        "profile": profile,
        "price": now.price,
        "currency": currency,
        "unit": "per GB per hour" if profile == DISK_PROFILE else "per hour",
        "since": rfc3339(now.at_ms),
        "history": [{"price": one.price, "since": rfc3339(one.at_ms)} for one in records[-_MAX_HISTORY:]],
    }
