"""JSON Schemas of the topics' values, from the wire models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from topics.catalogue import TOPICS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from schemas.base import Json
    from topics.catalogue import TopicSpec

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def topic_schemas() -> dict[str, Json]:
    """Return the schema of each topic's values by the topic's name."""
    return {name: topic_schema(spec) for name, spec in TOPICS.items()}


def topic_schema(spec: TopicSpec) -> Json:
    """Return the self-contained schema of a topic's values."""
    generated = plain(TypeAdapter(spec.schema).json_schema(), outbound=spec.direction == "out")
    head = {"$schema": DIALECT, "title": spec.name, "description": spec.summary}
    return {**head, **{name: value for name, value in generated.items() if name not in {"title", "description"}}}


def plain(schema: Any, *, outbound: bool) -> Any:
    """Return `schema` without the parts that only describe the Python model.

    Producers may write null for an absent field. Obol itself leaves absent fields out (contract, "Conventions"), so the
    schemas of outbound topics do not allow null.
    """
    if isinstance(schema, list):
        return [plain(part, outbound=outbound) for part in schema]
    if not isinstance(schema, dict):
        return schema
    result = {
        name: _plain_parts(name, value, outbound=outbound)
        for name, value in schema.items()
        if not (name == "default" and value is None)
    }
    if outbound and "anyOf" in result:
        options = [option for option in result["anyOf"] if option != {"type": "null"}]
        if len(options) == 1:
            del result["anyOf"]
            result = {**options[0], **result}
    # Titles repeat the name. `discriminator` belongs to OpenAPI, not to JSON Schema.
    if isinstance(result.get("title"), str):
        del result["title"]
    if "oneOf" in result:
        result.pop("discriminator", None)
    return result


def _plain_parts(name: str, value: Any, *, outbound: bool) -> Any:
    """Apply `plain` to the value of a keyword. The keys of `properties` and `$defs` are names, not keywords."""
    if name in {"properties", "$defs"} and isinstance(value, dict):
        return {key: plain(part, outbound=outbound) for key, part in value.items()}
    return plain(value, outbound=outbound)


def moved(schema: Any, names: Mapping[str, str]) -> Any:
    """Return `schema` with the prefix of every reference replaced according to `names`."""
    if isinstance(schema, list):
        return [moved(part, names) for part in schema]
    if not isinstance(schema, dict):
        return schema
    result = {name: moved(value, names) for name, value in schema.items()}
    if isinstance(result.get("$ref"), str):
        for old, new in names.items():
            if result["$ref"].startswith(old):
                result["$ref"] = new + result["$ref"].removeprefix(old)
    return result
