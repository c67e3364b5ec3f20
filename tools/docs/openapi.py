"""The OpenAPI 3.1 document of the web views' JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic.json_schema import models_json_schema

from streams.engine.rows import DESCRIPTIONS
from streams.lifecycle.deployment import DeploymentStatus
from streams.lifecycle.instance import InstanceState
from tools.docs import views
from tools.docs.json_schemas import DIALECT, plain
from tools.docs.project import DESCRIPTION, version

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pydantic.json_schema import JsonSchemaMode

    from schemas.base import Json

_PROBLEM = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
_RETRY = {"Retry-After": {"description": "Seconds.", "schema": {"type": "integer"}}}
_RESPONSES: Json = {
    "Wrong": {"description": "A parameter is invalid.", "content": _PROBLEM},
    "Token": {"description": "This worker requires OBOL_HTTP_TOKEN as a bearer token.", "content": _PROBLEM},
    "Unknown": {"description": "No such row, or its retention has expired (C5).", "content": _PROBLEM},
    "Later": {
        "description": "A partition is restoring, or no worker owns it.",
        "headers": _RETRY,
        "content": _PROBLEM,
    },
}
_PARAMETERS: Json = {
    "table": {
        "name": "table",
        "in": "path",
        "required": True,
        "description": "A table's name, as `/tables/` lists it.",
        "schema": {"type": "string", "enum": list(DESCRIPTIONS)},
    },
    "partition": {
        "name": "partition",
        "in": "path",
        "required": True,
        "schema": {"type": "integer", "minimum": 0},
    },
    "org": {"name": "org", "in": "path", "required": True, "schema": {"type": "string"}},
    "limit": {
        "name": "limit",
        "in": "query",
        "description": "Maximum number of items on a page.",
        "schema": {"type": "integer", "minimum": 1, "maximum": 1_000, "default": 100},
    },
    "cursor": {
        "name": "cursor",
        "in": "query",
        "description": "The `next` of the previous page, unchanged.",
        "schema": {"type": "string"},
    },
    "q": {"name": "q", "in": "query", "description": "An id or the start of one.", "schema": {"type": "string"}},
    "include_destroyed": {
        "name": "include_destroyed",
        "in": "query",
        "description": "Include destroyed instances (I11).",
        "schema": {"type": "boolean", "default": False},
    },
}

LISTS: dict[str, type[views.View]] = {
    "DeploymentList": views.Listed[views.Deployment],
    "InstanceList": views.Listed[views.Instance],
    "ReplicaList": views.Listed[views.ReplicaOf],
    "WindowList": views.Listed[views.Window],
    "PriceList": views.Listed[views.ProfilePrice],
    "PartitionList": views.Listed[views.PartitionFigures],
    "TableList": views.Listed[views.Table],
}

RESPONSE_MODELS: dict[str, type[views.View]] = {
    "/": views.Fleet,
    "/partitions": LISTS["PartitionList"],
    "/orgs": views.OrgList,
    "/search": views.SearchResult,
    "/prices": LISTS["PriceList"],
    "/health": views.Health,
    "/ready": views.Ready,
    "/orgs/{org}": views.Org,
    "/orgs/{org}/deployments": LISTS["DeploymentList"],
    "/orgs/{org}/deployments/{id}": views.OneDeployment,
    "/orgs/{org}/deployments/{id}/replicas": LISTS["ReplicaList"],
    "/orgs/{org}/replicas/{id}": views.Replica,
    "/orgs/{org}/replicas/{id}/windows": LISTS["WindowList"],
    "/orgs/{org}/instances": LISTS["InstanceList"],
    "/orgs/{org}/instances/{id}": views.OneInstance,
    "/orgs/{org}/instances/{id}/windows": LISTS["WindowList"],
    "/orgs/{org}/windows/{window_id}": views.OneWindow,
    "/orgs/{org}/usage": views.UsageList,
    "/orgs/{org}/explain/{usage_id}": views.Explanation,
    "/tables/": LISTS["TableList"],
    "/tables/{table}/": views.RowList,
    "/tables/positions/{partition}": views.OneRow,
    "/tables/{table}/{org}/{id}": views.OneRow,
}
"""The model of each path's response."""

_SUMMARIES = {
    "/": "The fleet: totals over all partitions.",
    "/partitions": "The figures of each partition.",
    "/orgs": "All orgs, ordered by id.",
    "/search": "Search for an id in all orgs.",
    "/prices": "The prices of each profile, with their history.",
    "/health": "Liveness: the process responds.",
    "/ready": "Readiness: all partitions of this worker are restored, and none is blocked.",
    "/orgs/{org}": "An org's balance, burn and runway, and its rows counted by state.",
    "/orgs/{org}/deployments": "An org's deployments.",
    "/orgs/{org}/deployments/{id}": "A deployment and its replicas.",
    "/orgs/{org}/deployments/{id}/replicas": "All replicas of a deployment.",
    "/orgs/{org}/replicas/{id}": "A replica and its windows.",
    "/orgs/{org}/replicas/{id}/windows": "All windows of a replica.",
    "/orgs/{org}/instances": "An org's instances, by default without destroyed ones.",
    "/orgs/{org}/instances/{id}": "An instance and its windows.",
    "/orgs/{org}/instances/{id}/windows": "All windows of an instance.",
    "/orgs/{org}/windows/{window_id}": "A window, and how much of it is billed, pending and forgiven.",
    "/orgs/{org}/usage": "An org's usage, credits and cost by day (U1).",
    "/orgs/{org}/explain/{usage_id}": "Why a charge exists, or why a minute was not charged.",
    "/tables/": "Faust's tables, for people.",
    "/tables/{table}/": "A table's rows as they are kept; their form may change.",
    "/tables/positions/{partition}": "A partition's offsets, times and counts as they are kept.",
    "/tables/{table}/{org}/{id}": "A row as it is kept; its form may change.",
}
_NOT_503 = {"/health", "/prices", "/tables/"}
_PAGED = {
    "/orgs",
    "/prices",
    "/orgs/{org}/deployments",
    "/orgs/{org}/deployments/{id}/replicas",
    "/orgs/{org}/replicas/{id}/windows",
    "/orgs/{org}/instances",
    "/orgs/{org}/instances/{id}/windows",
    "/orgs/{org}/usage",
    "/tables/{table}/",
}


def openapi() -> Json:
    """Return the document."""
    return {
        "openapi": "3.1.0",
        "jsonSchemaDialect": DIALECT,
        "info": {
            "title": "Obol web views",
            "version": version(),
            "description": f"{DESCRIPTION} Any worker can answer for any org. Clients that prefer text/html get pages.",
        },
        "servers": [{"url": "http://127.0.0.1:6066", "description": "A worker, at its OBOL_ADVERTISED_URL."}],
        "security": [{}, {"token": []}],
        "paths": {**{path: {"get": _get(path)} for path in RESPONSE_MODELS}, "/metrics": {"get": _metrics()}},
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer", "description": "OBOL_HTTP_TOKEN."}},
            "parameters": _PARAMETERS,
            "responses": _RESPONSES,
            "schemas": _schemas(),
        },
    }


def _get(path: str) -> Json:
    name = _name(RESPONSE_MODELS[path])
    refs = {"401": "Token"}
    if "{org}" in path or path.startswith("/tables/{") or "{partition}" in path:
        refs |= {"404": "Unknown"}
    if path in _PAGED or "explain" in path:
        refs |= {"400": "Wrong"}
    if path not in _NOT_503:
        refs |= {"503": "Later"}
    return {
        "operationId": _operation_id(path),
        "summary": _SUMMARIES[path],
        "parameters": _parameters(path),
        "responses": {
            "200": {
                "description": _SUMMARIES[path],
                "content": {
                    "application/json": {"schema": {"$ref": f"#/components/schemas/{name}"}},
                    "text/html": {"schema": {"type": "string"}},
                },
            },
            **{code: {"$ref": f"#/components/responses/{ref}"} for code, ref in sorted(refs.items())},
        },
    }


def _metrics() -> Json:
    return {
        "operationId": "metrics",
        "summary": "Metrics for Prometheus.",
        "responses": {
            "200": {
                "description": "Metrics in the text format, or in OpenMetrics if `Accept` prefers it.",
                "content": {"text/plain": {"schema": {"type": "string"}}},
            },
            "401": {"$ref": "#/components/responses/Token"},
        },
    }


def _operation_id(path: str) -> str:
    if path.startswith("/tables/{"):
        return "row" if path.endswith("}") else "rows"
    words = [word for word in path.split("/") if word and not word.startswith("{")]
    if path.endswith("}"):
        words[-1] = words[-1].removesuffix("s")
    elif "{id}" in path:
        return f"{words[-2].removesuffix('s')}_{words[-1]}"
    return "_".join(words[-1:]) or "fleet"


def _parameters(path: str) -> Sequence[Json]:
    shared = [name for name in ("table", "org", "partition") if f"{{{name}}}" in path]
    found: list[Json] = [{"$ref": f"#/components/parameters/{name}"} for name in shared]
    *_, kind, name = ("", *path.rpartition("id}")[0].split("/"))
    if name.startswith("{"):
        name += "id}"
        noun = "row" if "table" in shared else kind.removesuffix("s")
        text = "A usage id." if kind == "explain" else f"The {noun}'s id, looked up within its org."
        schema = {"type": "string"}
        found.append({"name": name.strip("{}"), "in": "path", "required": True, "description": text, "schema": schema})
    states = {"/orgs/{org}/deployments": DeploymentStatus, "/orgs/{org}/instances": InstanceState}.get(path)
    if states is not None:
        words = {"type": "string", "enum": [state.value for state in states]}
        found.append({"name": "status", "in": "query", "description": "Only rows in this state.", "schema": words})
        found.append({"$ref": "#/components/parameters/q"})
        text = "Only rows with this label: a key, or key=value."
        found.append({"name": "label", "in": "query", "description": text, "schema": {"type": "string"}})
    if path == "/orgs/{org}/usage":
        for name, text in (("from", "The first day; default: 30 days ago."), ("until", "The day after the last.")):
            schema = {"type": "string", "format": "date"}
            found.append({"name": name, "in": "query", "description": text, "schema": schema})
    if path == "/search":
        found.append({"$ref": "#/components/parameters/q"})
    if path == "/orgs/{org}/instances":
        found.append({"$ref": "#/components/parameters/include_destroyed"})
    if path in _PAGED:
        found += [{"$ref": "#/components/parameters/limit"}, {"$ref": "#/components/parameters/cursor"}]
    return found


def _name(model: type[views.View]) -> str:
    return next((name for name, listed in LISTS.items() if listed is model), model.__name__)


def _schemas() -> Json:
    models: list[type[views.View]] = [*dict.fromkeys(RESPONSE_MODELS.values()), views.Problem]
    inputs: list[tuple[Any, JsonSchemaMode]] = [(model, "validation") for model in models]
    _, found = models_json_schema(inputs, ref_template="#/components/schemas/{model}")
    renamed = {listed.__name__: name for name, listed in LISTS.items()}
    schemas: Json = {}
    for given, schema in found["$defs"].items():
        # Clients must accept fields that they do not know, since fields may be added.
        schema.pop("additionalProperties", None)
        schemas[_listed(given, renamed)] = plain(schema, outbound=False)
    return dict(sorted(schemas.items()))


def _listed(name: str, renamed: dict[str, str]) -> str:
    """Return the name of a list, in place of pydantic's name for a generic model."""
    names = {given.replace("[", "_").replace("]", "_"): new for given, new in renamed.items()}
    return names.get(name, name)
