"""The OpenAPI 3.1 document: the web views, as programs see them."""

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

Json = dict[str, Any]

_PROBLEM = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
_RETRY = {"Retry-After": {"description": "Seconds.", "schema": {"type": "integer"}}}
_RESPONSES: Json = {
    "Wrong": {"description": "A parameter can't be read.", "content": _PROBLEM},
    "Token": {"description": "This worker wants OBOL_HTTP_TOKEN as a bearer token.", "content": _PROBLEM},
    "Unknown": {"description": "No such row, or it left after the retention (C5).", "content": _PROBLEM},
    "Later": {
        "description": "Partitions are restoring or moving: no answer is better than half of one.",
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
        "description": "Items of a page.",
        "schema": {"type": "integer", "minimum": 1, "maximum": 1_000, "default": 100},
    },
    "cursor": {
        "name": "cursor",
        "in": "query",
        "description": "The `next` of the page before, unchanged.",
        "schema": {"type": "string"},
    },
    "q": {"name": "q", "in": "query", "description": "The id, or how it begins.", "schema": {"type": "string"}},
    "include_destroyed": {
        "name": "include_destroyed",
        "in": "query",
        "description": "Also destroyed instances (I11).",
        "schema": {"type": "boolean", "default": False},
    },
}

LISTS: dict[str, type[views.View]] = {
    "DeploymentList": views.Listed[views.Deployment],
    "InstanceList": views.Listed[views.Instance],
    "PriceList": views.Listed[views.ProfilePrice],
    "PartitionList": views.Listed[views.PartitionFigures],
    "TableList": views.Listed[views.Table],
}

ANSWERS: dict[str, type[views.View]] = {
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
    "/orgs/{org}/replicas/{id}": views.Replica,
    "/orgs/{org}/instances": LISTS["InstanceList"],
    "/orgs/{org}/instances/{id}": views.OneInstance,
    "/orgs/{org}/windows/{window_id}": views.OneWindow,
    "/orgs/{org}/explain/{usage_id}": views.Explanation,
    "/tables/": LISTS["TableList"],
    "/tables/{table}/": views.RowList,
    "/tables/positions/{partition}": views.OneRow,
    "/tables/{table}/{org}/{id}": views.OneRow,
}
"""The model of each path's answer."""

_SUMMARIES = {
    "/": "The fleet: all partitions added up.",
    "/partitions": "Every partition's own numbers.",
    "/orgs": "Every org, in order of its id.",
    "/search": "What has an id, in whatever org.",
    "/prices": "What is known of each profile, and since when.",
    "/health": "Whether the process is there.",
    "/ready": "Whether all partitions of this worker have their rows.",
    "/orgs/{org}": "An org's money, and its rows counted by state.",
    "/orgs/{org}/deployments": "An org's deployments.",
    "/orgs/{org}/deployments/{id}": "A deployment and its replicas.",
    "/orgs/{org}/replicas/{id}": "A replica and its running windows.",
    "/orgs/{org}/instances": "An org's instances; destroyed ones only if asked for.",
    "/orgs/{org}/instances/{id}": "An instance and the windows of its meters.",
    "/orgs/{org}/windows/{window_id}": "A window and what became of its time.",
    "/orgs/{org}/explain/{usage_id}": "Why a charge exists, or why a minute was not charged.",
    "/tables/": "Faust's tables, for people.",
    "/tables/{table}/": "A table's rows as they are kept; their form may change.",
    "/tables/positions/{partition}": "A partition's offsets, times and counts as they are kept.",
    "/tables/{table}/{org}/{id}": "A row as it is kept; its form may change.",
}
_NOT_503 = {"/health", "/prices", "/tables/"}
_PAGED = {"/orgs", "/prices", "/orgs/{org}/deployments", "/orgs/{org}/instances", "/tables/{table}/"}


def openapi() -> Json:
    """The document."""
    return {
        "openapi": "3.1.0",
        "jsonSchemaDialect": DIALECT,
        "info": {
            "title": "Obol web views",
            "version": version(),
            "description": f"{DESCRIPTION} Any worker answers for any org. Browsers that prefer text/html get pages.",
        },
        "servers": [{"url": "http://127.0.0.1:6066", "description": "A worker, as OBOL_ADVERTISED_URL names it."}],
        "security": [{}, {"token": []}],
        "paths": {**{path: {"get": _get(path)} for path in ANSWERS}, "/metrics": {"get": _metrics()}},
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer", "description": "OBOL_HTTP_TOKEN."}},
            "parameters": _PARAMETERS,
            "responses": _RESPONSES,
            "schemas": _schemas(),
        },
    }


def _get(path: str) -> Json:
    name = _name(ANSWERS[path])
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
        "summary": "What Prometheus reads.",
        "responses": {
            "200": {
                "description": "Metrics as text, or as OpenMetrics where `Accept` prefers that.",
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
    return "_".join(words[-1:]) or "fleet"


def _parameters(path: str) -> Sequence[Json]:
    shared = [name for name in ("table", "org", "partition") if f"{{{name}}}" in path]
    found: list[Json] = [{"$ref": f"#/components/parameters/{name}"} for name in shared]
    *_, kind, name = ("", *path.split("/"))
    if name.endswith("id}"):
        noun = "row" if "table" in shared else kind.removesuffix("s")
        says = "A usage id." if kind == "explain" else f"The {noun}'s id, looked up within its org."
        schema = {"type": "string"}
        found.append({"name": name.strip("{}"), "in": "path", "required": True, "description": says, "schema": schema})
    states = {"/orgs/{org}/deployments": DeploymentStatus, "/orgs/{org}/instances": InstanceState}.get(path)
    if states is not None:
        words = {"type": "string", "enum": [state.value for state in states]}
        found.append({"name": "status", "in": "query", "description": "Only these.", "schema": words})
        found.append({"$ref": "#/components/parameters/q"})
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
    models: list[type[views.View]] = [*dict.fromkeys(ANSWERS.values()), views.Problem]
    inputs: list[tuple[Any, JsonSchemaMode]] = [(model, "validation") for model in models]
    _, found = models_json_schema(inputs, ref_template="#/components/schemas/{model}")
    renamed = {listed.__name__: name for name, listed in LISTS.items()}
    schemas: Json = {}
    for given, schema in found["$defs"].items():
        # Fields may be added, so a client must take those that it does not know.
        schema.pop("additionalProperties", None)
        schemas[_listed(given, renamed)] = plain(schema, outbound=False)
    return dict(sorted(schemas.items()))


def _listed(name: str, renamed: dict[str, str]) -> str:
    """A list's own name, in place of pydantic's for a model with a parameter."""
    shapes = {given.replace("[", "_").replace("]", "_"): ours for given, ours in renamed.items()}
    return shapes.get(name, name)
