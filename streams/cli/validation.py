"""Validation of records before they are sent; missing ids are generated."""

import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from schemas.base import Json
from streams.cli.cluster import CLIENT_ID, Draft
from streams.cli.failure import EXIT_USAGE, Failure
from streams.cli.forms import GENERATED_IDS, Field, models_of, with_option_names
from streams.cli.text import printable
from topics.catalogue import CLOCK, PRICES, TopicSpec
from topics.codec import Rejected, decode
from topics.partitioner import partition_of


@dataclass(frozen=True, slots=True)
class ValidRecord:
    """A valid record: the parsed model, and its bytes."""

    spec: TopicSpec
    model: Any
    key: bytes | None
    value: bytes | None

    @property
    def name(self) -> str:
        """What messages call it: its id, or the id of its entity."""
        for field in (*GENERATED_IDS, "replica_id", "deployment_id"):
            if (found := getattr(self.model, field, None)) is not None:
                return str(found)
        return "tick" if self.spec is CLOCK else (self.key or b"").decode()

    def drafts(self, partitions: int, at_ms: int | None) -> list[Draft]:
        """Return the records to send: one to the org's partition, a price to partition 0, a tick to each partition."""
        targets: Sequence[int] = (0,)
        if self.spec is CLOCK:
            targets = range(partitions)
        elif self.spec is not PRICES:
            targets = (partition_of(self.model.org_id, partitions),)
        return [
            Draft(
                name=self.name,
                topic=self.spec.name,
                partition=target,
                key=self.key,
                value=self.value,
                timestamp_ms=at_ms,
            )
            for target in targets
        ]


def validate(spec: TopicSpec, content: Json, form: Sequence[Field] = (), raw: bytes | None = None) -> ValidRecord:
    """Validate a record against its topic's schema. Raises `Failure`.

    `form`: the options it came from, which errors then name. `raw`: its bytes as given; they are sent unchanged unless
    an id has to be added.
    """
    generated = {
        name: f"{CLIENT_ID}-{uuid.uuid4().hex}"
        for name in GENERATED_IDS
        if content.get(name) is None and any(name in model.model_fields for model in models_of(spec.schema))
    }
    if raw is not None and not generated:
        value = raw
    else:
        value = json.dumps({**content, **generated}, separators=(",", ":")).encode()
    model = decode(spec, value)
    if isinstance(model, Rejected):
        error = with_option_names(model.error, form) if form else model.error
        raise Failure(f"nothing was sent; the record is invalid for {spec.name}: {printable(error)}", EXIT_USAGE)
    owner = model.profile if spec is PRICES else getattr(model, "org_id", None)
    return ValidRecord(spec, model, None if owner is None else owner.encode(), value)


def validate_text(spec: TopicSpec, text: str) -> list[ValidRecord]:
    """Validate records given as text: one JSON object, or one per line. Raises `Failure` if any is invalid."""
    try:
        return [_from_json(spec, text.strip(), json.loads(text), "--json")]
    except (ValueError, RecursionError) as error:
        lines = [(f"--json line {number}", line.strip()) for number, line in enumerate(text.splitlines(), start=1)]
        lines = [(where, line) for where, line in lines if line]
        if not lines:
            msg = "--json is empty: give a JSON object, or - and one JSON object per line on stdin"
            raise Failure(msg, EXIT_USAGE) from error
    return [_from_json(spec, line, _object(line, where), where) for where, line in lines]


def _from_json(spec: TopicSpec, text: str, content: Any, where: str) -> ValidRecord:
    if not isinstance(content, dict):
        raise Failure(f"{where} is not a JSON object; nothing was sent", EXIT_USAGE)
    try:
        return validate(spec, content, raw=text.encode("utf-8", "surrogateescape"))
    except Failure as failure:
        raise Failure(f"{where}: {failure}", EXIT_USAGE) from failure


def _object(line: str, where: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise Failure(f"{where} is not JSON: {error}; nothing was sent", EXIT_USAGE) from error
