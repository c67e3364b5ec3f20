"""Decodes bytes to models, a batch at a time, and encodes models.

Each record is parsed on its own, so that no record can affect another. The parser accepts NaN, Infinity and deep
nesting, which the contract forbids. One cheap check of a batch's bytes finds out whether it could have any; only then
each record is checked.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, TypeVar, get_args

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails, from_json, to_json

from schemas.base import MAX_DEPTH, MAX_VALUE_BYTES, Wire
from schemas.commands import COMMANDS as USER_COMMANDS
from schemas.commands import target_field
from schemas.heads import CommandHead, OrgHead
from schemas.ids import Text512
from schemas.operator import CreditWindow
from schemas.prices import Price, PriceRemoved
from topics.catalogue import COMMANDS, OPERATOR_COMMANDS, PRICES, TOPICS, TopicSpec

MAX_ERROR_CHARS: Final = 500

Head = TypeVar("Head", bound=OrgHead)

_STRING: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_NO_BRACKETS: Final = bytes(set(range(256)) - set(b"{}[]"))
_OPENING: Final = frozenset(b"{[")

_PARSE: Final[dict[str, Callable[[bytes], Any]]] = {
    name: TypeAdapter(spec.schema).validator.validate_json for name, spec in TOPICS.items()
}


def _targets(models: Iterable[type[Wire]]) -> dict[str, tuple[str, TypeAdapter[str]]]:
    """Return, for each command's `type`, the field with the id that it is about, and the adapter that validates it."""
    found: dict[str, tuple[str, TypeAdapter[str]]] = {}
    for model in models:
        name = target_field(model)
        field = model.model_fields[name]
        [command_type] = get_args(model.model_fields["type"].annotation)
        found[command_type] = (name, TypeAdapter(Annotated[str, *field.metadata]))
    return found


_TARGETS: Final = {COMMANDS.name: _targets(USER_COMMANDS), OPERATOR_COMMANDS.name: _targets((CreditWindow,))}
_PROFILE: Final = TypeAdapter[str](Text512)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected:
    """An invalid record, with the reason of its dead letter and the error as a sentence.

    `org_id` is set if it is valid (the record may be misplaced), `command_id` if both ids of a command are valid (it
    gets a result, `INVALID`, instead of a dead letter), `target` if that command names a valid id.
    """

    reason: Literal["too_large", "undecodable", "invalid"]
    error: str
    org_id: str | None = None
    command_id: str | None = None
    target: str | None = None


def decode_batch(spec: TopicSpec, values: Sequence[bytes | None]) -> list[Any]:
    """Decode the values of an inbound topic's records, in order: for each a model of `spec.schema`, or a `Rejected`."""
    if _is_plain(values):
        parse = _PARSE[spec.name]
        try:
            return [parse(value) for value in values]  # type: ignore[arg-type]  # a plain batch has no None
        except ValidationError:
            pass
    return [decode(spec, value) for value in values]


def decode(spec: TopicSpec, value: bytes | None) -> Any:
    """Decode one value as `decode_batch` does.

    Raises nothing. A number of more than 4,300 digits is not accepted as JSON.
    """
    if not value:
        return Rejected(reason="undecodable", error="the value is empty, not a UTF-8 JSON object")
    if len(value) > MAX_VALUE_BYTES:
        return Rejected(reason="too_large", error=f"the value has {len(value)} bytes, over {MAX_VALUE_BYTES}")
    if _is_suspect(value) and (flaw := _flaw(value)):
        return Rejected(reason="undecodable", error=_short(flaw))
    try:
        return _PARSE[spec.name](value)
    except ValidationError as error:
        return _rejected(spec, value, error)


def decode_prices(records: Iterable[tuple[bytes | None, bytes | None]], currency: str) -> list[Any]:
    """Decode (key, value) pairs of `croesus.prices`: for each a `Price`, a `PriceRemoved` or a `Rejected`.

    An empty value removes the price of the profile that the key names. A price in another currency than `currency`
    (`OBOL_CURRENCY`), or whose key is not its profile, is `invalid`.
    """
    return [_decode_price(key, value, currency) for key, value in records]


def encode(model: Wire) -> bytes:
    """Return a model as compact UTF-8 JSON: fields in the model's order, absent ones left out."""
    return to_json(model, exclude_none=True, by_alias=True)


def _is_plain(values: Sequence[bytes | None]) -> bool:
    """Return whether, if all are objects, none can be too large, nested too deep, or have NaN or Infinity."""
    if None in values:
        return False
    present: Sequence[bytes] = values  # type: ignore[assignment]
    if max(map(len, present), default=0) > MAX_VALUE_BYTES:
        return False
    joined = b",".join(present)
    return is_shallow(joined, len(present)) and b"NaN" not in joined and b"Infinity" not in joined


def is_shallow(joined: bytes, count: int) -> bool:
    """Return whether none of `count` objects, all in `joined`, can be nested too deep.

    Each object opens at least one bracket, so with fewer than `MAX_DEPTH` over one each, none can open too many.
    """
    return joined.count(b"{") + joined.count(b"[") - count < MAX_DEPTH


def _is_suspect(value: bytes) -> bool:
    return value.count(b"{") + value.count(b"[") > MAX_DEPTH or b"NaN" in value or b"Infinity" in value


def _flaw(value: bytes) -> str | None:
    """Return why a suspect value is undecodable; None if it is not."""
    try:
        from_json(value, allow_inf_nan=False)
    except ValueError as error:
        return f"no UTF-8 JSON object: {error}"
    depth = deepest = 0
    for bracket in _STRING.sub(b"", value).translate(None, _NO_BRACKETS):
        if bracket in _OPENING:
            depth += 1
            deepest = max(deepest, depth)
        else:
            depth -= 1
    return f"nested {deepest} deep, at most {MAX_DEPTH} may be" if deepest > MAX_DEPTH else None


def _rejected(spec: TopicSpec, value: bytes, error: ValidationError) -> Rejected:
    try:
        content = from_json(value, allow_inf_nan=False)
    except ValueError as no_json:
        return Rejected(reason="undecodable", error=_short(f"no UTF-8 JSON object: {no_json}"))
    if not isinstance(content, dict):
        return Rejected(reason="undecodable", error="JSON, but no object")
    message = _short("; ".join(map(_describe, error.errors(include_url=False, include_input=False))))
    org_id = command_id = target = None
    if (org := _or_none(OrgHead, content)) is not None:
        org_id = org.org_id
        if spec.name in _TARGETS and (command := _or_none(CommandHead, content)) is not None:
            command_id = command.command_id
            target = _target(spec, content)
    return Rejected(reason="invalid", error=message, org_id=org_id, command_id=command_id, target=target)


def _describe(error: ErrorDetails) -> str:
    """Return an error as a sentence, the field first, without the name of the union's model that was tried."""
    context = error.get("ctx", {})
    if error["type"] == "union_tag_invalid":
        return f"{context['discriminator']}: {context['tag']!r} is none of {context['expected_tags']}".replace("'", "")
    if error["type"] == "union_tag_not_found":
        return f"{context['discriminator']}: missing".replace("'", "")
    field = ".".join(str(part) for part in error["loc"] if part not in _TAGS)
    return f"{field}: {error['msg'][0].lower()}{error['msg'][1:]}"


def _tags() -> frozenset[str]:
    tags: set[str] = set()
    for spec in TOPICS.values():
        schema = TypeAdapter(spec.schema).core_schema
        if schema["type"] == "tagged-union":
            tags.update(map(str, schema["choices"]))
    return frozenset(tags)


_TAGS: Final = _tags()


def _or_none(head: type[Head], content: dict[str, Any]) -> Head | None:
    try:
        return head.model_validate(content)
    except ValidationError:
        return None


def _target(spec: TopicSpec, content: dict[str, Any]) -> str | None:
    kind = content.get("type")
    found = _TARGETS[spec.name].get(kind) if isinstance(kind, str) else None
    if found is None:
        return None
    field, adapter = found
    try:
        return adapter.validate_python(content.get(field), strict=True)
    except ValidationError:
        return None


def _decode_price(key: bytes | None, value: bytes | None, currency: str) -> Price | PriceRemoved | Rejected:
    try:
        profile = _PROFILE.validate_python((key or b"").decode())
    except ValueError:
        return Rejected(reason="invalid", error="the key is no profile of 1 to 512 characters")
    if not value:
        return PriceRemoved(profile)
    price = decode(PRICES, value)
    if isinstance(price, Price):
        if price.profile != profile:
            return _invalid_price(f"profile: {price.profile!r}, but the record's key is {profile!r}")
        if price.currency != currency:
            return _invalid_price(f"currency: {price.currency!r}, but this installation's is {currency!r}")
    return price  # type: ignore[no-any-return]


def _invalid_price(error: str) -> Rejected:
    return Rejected(reason="invalid", error=_short(error))


def _short(error: str) -> str:
    return error if len(error) <= MAX_ERROR_CHARS else f"{error[: MAX_ERROR_CHARS - 1]}…"
