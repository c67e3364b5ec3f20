"""A JSON Schema for each topic, from its wire models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from topics.catalogue import TOPICS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from topics.catalogue import TopicSpec

Json = dict[str, Any]

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def topic_schemas() -> dict[str, Json]:
    """The schema of each topic's values, by the topic's name."""
    return {name: topic_schema(spec) for name, spec in TOPICS.items()}


def topic_schema(spec: TopicSpec) -> Json:
    """The schema of a topic's values, whole in itself."""
    made = plain(TypeAdapter(spec.schema).json_schema(), outbound=spec.direction == "out")
    head = {"$schema": DIALECT, "title": spec.name, "description": spec.summary}
    return {**head, **{name: value for name, value in made.items() if name not in {"title", "description"}}}


def plain(schema: Any, *, outbound: bool) -> Any:
    """`schema` without what only says how Python builds a model.

    Producers may write null for an absent field; outbound records leave it out (contract, "Conventions"), so there null
    is no value of a field.
    """
    if isinstance(schema, list):
        return [plain(part, outbound=outbound) for part in schema]
    if not isinstance(schema, dict):
        return schema
    made = {
        name: _plain_parts(name, value, outbound=outbound)
        for name, value in schema.items()
        if not (name == "default" and value is None)
    }
    if outbound and "anyOf" in made:
        options = [option for option in made["anyOf"] if option != {"type": "null"}]
        if len(options) == 1:
            del made["anyOf"]
            made = {**options[0], **made}
    # A model's or a field's title only repeats its name, and OpenAPI's discriminator is not JSON Schema's.
    if isinstance(made.get("title"), str):
        del made["title"]
    if "oneOf" in made:
        made.pop("discriminator", None)
    return made


def _plain_parts(name: str, value: Any, *, outbound: bool) -> Any:
    """Under these names stand names of our own, not words of JSON Schema."""
    if name in {"properties", "$defs"} and isinstance(value, dict):
        return {ours: plain(part, outbound=outbound) for ours, part in value.items()}
    return plain(value, outbound=outbound)


def moved(schema: Any, names: Mapping[str, str]) -> Any:
    """`schema` with the start of every reference changed by `names`."""
    if isinstance(schema, list):
        return [moved(part, names) for part in schema]
    if not isinstance(schema, dict):
        return schema
    made = {name: moved(value, names) for name, value in schema.items()}
    if isinstance(made.get("$ref"), str):
        for start, new in names.items():
            if made["$ref"].startswith(start):
                made["$ref"] = new + made["$ref"].removeprefix(start)
    return made
