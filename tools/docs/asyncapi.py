"""The AsyncAPI 3.0 document: each topic is a channel, which Obol receives from or sends to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streams.cli.forms import models_of
from tools.docs.json_schemas import moved, plain
from tools.docs.project import DESCRIPTION, version
from topics.catalogue import INBOUND, OUTBOUND

if TYPE_CHECKING:
    from pydantic import BaseModel

    from schemas.base import Json
    from topics.catalogue import TopicSpec

_KAFKA_BINDING = "0.5.0"
_SERVER = {"$ref": "#/servers/kafka"}
_INTRODUCTION = (
    "Values are UTF-8 JSON objects; unknown fields are ignored. The time of an event is the timestamp of its Kafka "
    "record. Where OBOL_NAMESPACE is set, it and a dot are prefixed to every topic name."
)


def asyncapi() -> Json:
    """Return the document."""
    specs = (*INBOUND, *OUTBOUND)
    return {
        "asyncapi": "3.0.0",
        "info": {"title": "Obol", "version": version(), "description": f"{DESCRIPTION} {_INTRODUCTION}"},
        "defaultContentType": "application/json",
        "servers": {
            "kafka": {
                "host": "{bootstrap}",
                "protocol": "kafka",
                "description": "The cluster of KAFKA_BOOTSTRAP_SERVERS.",
                "variables": {"bootstrap": {"default": "127.0.0.1:9092", "description": "host:port of a broker."}},
            }
        },
        "channels": {spec.name: _channel(spec) for spec in specs},
        "operations": {_operation_id(spec): _operation(spec) for spec in specs},
        "components": {
            "messages": {model.__name__: _message(spec, model) for spec in specs for model in models_of(spec.schema)},
            "schemas": _schemas(specs),
        },
    }


def _channel(spec: TopicSpec) -> Json:
    config = spec.config("broker", replication=1)
    return {
        "address": spec.name,
        "title": spec.name,
        "description": f"{spec.summary} Key: {spec.key}.",
        "servers": [_SERVER],
        "messages": {
            model.__name__: {"$ref": f"#/components/messages/{model.__name__}"} for model in models_of(spec.schema)
        },
        "bindings": {
            "kafka": {
                **({"partitions": 1} if spec.one_partition else {}),
                "topicConfiguration": {
                    "cleanup.policy": [config["cleanup.policy"]],
                    "retention.ms": int(config["retention.ms"]),
                    "max.message.bytes": int(config["max.message.bytes"]),
                },
                "bindingVersion": _KAFKA_BINDING,
            }
        },
        **({} if spec.rank is None else {"x-obol-rank": spec.rank}),
    }


def _operation_id(spec: TopicSpec) -> str:
    return f"{_action(spec)}.{spec.name}"


def _action(spec: TopicSpec) -> str:
    return "receive" if spec.direction == "in" else "send"


def _operation(spec: TopicSpec) -> Json:
    channel = f"#/channels/{spec.name}"
    return {
        "action": _action(spec),
        "channel": {"$ref": channel},
        "summary": spec.summary,
        "messages": [{"$ref": f"{channel}/messages/{model.__name__}"} for model in models_of(spec.schema)],
    }


def _message(spec: TopicSpec, model: type[BaseModel]) -> Json:
    keyed = {} if spec.key.startswith("none") else {"key": {"type": "string", "description": f"{spec.key}."}}
    return {
        "name": model.__name__,
        "title": model.__name__,
        "summary": (model.__doc__ or "").splitlines()[0],
        "contentType": "application/json",
        "payload": {"$ref": f"#/components/schemas/{model.__name__}"},
        "bindings": {"kafka": {**keyed, "bindingVersion": _KAFKA_BINDING}},
    }


def _schemas(specs: tuple[TopicSpec, ...]) -> Json:
    """Return each model once, with the schemas that it refers to."""
    found: Json = {}
    for spec in specs:
        for model in models_of(spec.schema):
            schema = plain(model.model_json_schema(), outbound=spec.direction == "out")
            found |= schema.pop("$defs", {})
            found[model.__name__] = schema
    return dict(sorted(moved(found, {"#/$defs/": "#/components/schemas/"}).items()))
