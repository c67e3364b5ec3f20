"""Records from a person: given an id where they lack one, and judged by the schemas before anything is sent."""

import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from streams.cli.cluster import CLIENT_ID, Draft
from streams.cli.failure import EXIT_USAGE, Failure
from streams.cli.forms import MADE_IDS, Field, in_options, models_of
from streams.cli.words import printable
from topics.catalogue import CLOCK, PRICES, TopicSpec
from topics.codec import Rejected, decode
from topics.partitioner import partition_of

Body = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Parcel:
    """A good record: what the schemas made of it, and its bytes."""

    spec: TopicSpec
    model: Any
    key: bytes | None
    value: bytes | None

    @property
    def name(self) -> str:
        """What to call it: its id, or else what it is about."""
        for field in (*MADE_IDS, "replica_id", "deployment_id"):
            if (found := getattr(self.model, field, None)) is not None:
                return str(found)
        return "tick" if self.spec is CLOCK else (self.key or b"").decode()

    def drafts(self, partitions: int, at_ms: int | None) -> list[Draft]:
        """Where it goes (contract, "Conventions"): to its org's partition; a tick to every one, prices have one."""
        places: Sequence[int] = (0,)
        if self.spec is CLOCK:
            places = range(partitions)
        elif self.spec is not PRICES:
            places = (partition_of(self.model.org_id, partitions),)
        return [
            Draft(
                name=self.name,
                topic=self.spec.name,
                partition=place,
                key=self.key,
                value=self.value,
                timestamp_ms=at_ms,
            )
            for place in places
        ]


def parcel(spec: TopicSpec, content: Body, found: Sequence[Field] = (), raw: bytes | None = None) -> Parcel:
    """Judge a record by its topic's schema; raises `Failure`.

    `found`: the options it came from, which an error then names. `raw`: its bytes as they were given; they are sent
    unchanged unless it lacked an id.
    """
    made = {
        name: f"{CLIENT_ID}-{uuid.uuid4().hex}"
        for name in MADE_IDS
        if content.get(name) is None and any(name in model.model_fields for model in models_of(spec.schema))
    }
    value = raw if raw is not None and not made else json.dumps({**content, **made}, separators=(",", ":")).encode()
    model = decode(spec, value)
    if isinstance(model, Rejected):
        told = in_options(model.error, found) if found else model.error
        raise Failure(f"nothing was sent, {spec.name} takes no such record: {printable(told)}", EXIT_USAGE)
    owner = model.profile if spec is PRICES else getattr(model, "org_id", None)
    return Parcel(spec, model, None if owner is None else owner.encode(), value)


def parcels(spec: TopicSpec, text: str) -> list[Parcel]:
    """Records from text: one JSON object, or one a line. All are judged before any is sent; raises `Failure`."""
    try:
        return [_from_json(spec, text.strip(), json.loads(text), "--json")]
    except (ValueError, RecursionError) as error:
        lines = [(f"--json line {number}", line.strip()) for number, line in enumerate(text.splitlines(), start=1)]
        lines = [(where, line) for where, line in lines if line]
        if not lines:
            msg = "--json got nothing: give a JSON object, or - and one a line on stdin"
            raise Failure(msg, EXIT_USAGE) from error
    return [_from_json(spec, line, _object(line, where), where) for where, line in lines]


def _from_json(spec: TopicSpec, text: str, content: Any, where: str) -> Parcel:
    if not isinstance(content, dict):
        raise Failure(f"{where} is JSON, but no object; nothing was sent", EXIT_USAGE)
    try:
        return parcel(spec, content, raw=text.encode("utf-8", "surrogateescape"))
    except Failure as failure:
        raise Failure(f"{where}: {failure}", EXIT_USAGE) from failure


def _object(line: str, where: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise Failure(f"{where} is no JSON: {error}; nothing was sent", EXIT_USAGE) from error
