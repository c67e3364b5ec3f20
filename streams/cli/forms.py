"""Options made from the wire models, so that a field of the contract is an option of the command line."""

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, get_args

import typer

from schemas.base import Wire

Values = dict[str, Any]

MADE_IDS: Final = ("event_id", "command_id")
"""Made anew where the caller gives none, so that two records are never the same one by accident (C1, C4)."""

_SCALARS: Final[dict[str, Any]] = {"string": str, "integer": int, "boolean": bool}


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A field of a record as an option. `path` leads to it through nested objects: (`template`, `mode`)."""

    path: tuple[str, ...]
    type: Any
    help: str
    needed: bool
    default: Any = None

    @property
    def parameter(self) -> str:
        """Its name in Python."""
        return "_".join(self.path)

    @property
    def options(self) -> tuple[str, ...]:
        """`--deployment-id`, and `--deployment` for short; a switch has its opposite."""
        long = "--" + self.parameter.replace("_", "-")
        if self.type is bool:
            return (f"{long}/--no-{long.removeprefix('--')}",)
        return (long.removesuffix("-id"), long) if self.path[-1].endswith("_id") else (long,)

    @property
    def option(self) -> str:
        """How messages call it."""
        return self.options[0].partition("/")[0]


def fields(model: type[Wire], without: Iterable[str] = ()) -> list[Field]:
    """The fields of `model` that a person fills in, in the model's order; what is fixed needs no option."""
    schema = model.model_json_schema()
    return list(_fields(schema, schema.get("$defs", {}), (), frozenset(without)))


def _fields(
    schema: Mapping[str, Any], defs: Mapping[str, Any], above: tuple[str, ...], without: frozenset[str]
) -> Iterable[Field]:
    needed = schema.get("required", ())
    for name, given in schema["properties"].items():
        spec = _resolved(given, defs)
        path = (*above, name)
        if "const" in spec or name in without:
            continue
        if spec.get("type") == "object":
            yield from _fields(spec, defs, path, without)
            continue
        type_ = Literal[tuple(spec["enum"])] if "enum" in spec else _SCALARS[spec["type"]]
        made = name in MADE_IDS
        yield Field(
            path=path,
            type=type_,
            help=_help(spec.get("description", ""), made=made, needed=name in needed, default=given.get("default")),
            needed=name in needed and not made,
            default=given.get("default"),
        )


def _resolved(spec: Mapping[str, Any], defs: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema behind a reference or an "or null", with the description that stands nearest to the field."""
    inner = spec
    while True:
        if "$ref" in inner:
            inner = defs[inner["$ref"].rpartition("/")[2]]
        elif "anyOf" in inner:
            inner = next(option for option in inner["anyOf"] if option.get("type") != "null")
        else:
            break
    return {**inner, **({"description": spec["description"]} if "description" in spec else {})}


def _help(description: str, *, made: bool, needed: bool, default: Any) -> str:
    text = description.replace("`", "")
    if made:
        return f"{text} (made when not given)"
    if needed:
        return f"{text} (needed)"
    return (
        text if default in (None, "") else f"{text} (default: {str(default).lower() if default is True else default})"
    )


def body(found: Iterable[Field], values: Mapping[str, Any]) -> Values:
    """The record's JSON object from the options that were given."""
    made: Values = {}
    for field in found:
        value = values.get(field.parameter)
        if value is None:
            continue
        place = made
        for part in field.path[:-1]:
            place = place.setdefault(part, {})
        place[field.path[-1]] = value
    return made


def in_options(error: str, found: Iterable[Field]) -> str:
    """An error of the schema in the words of the command line: its options instead of its fields."""
    names = {".".join(field.path): field.option for field in found}
    # An object of which nothing was given is missing as a whole; its first option says where to begin.
    for field in found:
        if len(field.path) > 1:
            names.setdefault(".".join(field.path[:-1]), field.option)
    told = re.sub(r"(^|; )([a-z_.]+): ", lambda part: f"{part[1]}{names.get(part[2], part[2])}: ", error)
    return told.replace("field required", "is needed")


def command(
    name: str, doc: str, found: Iterable[Field], extra: Mapping[str, tuple[Any, Any]], action: Callable[[Values], None]
) -> Callable[..., None]:
    """A function that Typer makes a command of: an option a field, then `extra` (name → annotation and default)."""

    def function(**values: Any) -> None:
        action(values)

    parameters = [
        inspect.Parameter(
            field.parameter,
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=Annotated[field.type | None, typer.Option(*field.options, help=field.help, show_default=False)],
        )
        for field in found
    ]
    parameters += [
        inspect.Parameter(parameter, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        for parameter, (annotation, default) in extra.items()
    ]
    function.__name__ = name
    function.__doc__ = doc
    function.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # what Typer reads
    function.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return function


def models_of(schema: Any) -> tuple[type[Wire], ...]:
    """The models of a topic's schema: a union's members, or the one model itself."""
    if isinstance(schema, type):
        return (schema,)
    union = get_args(schema)[0]
    return get_args(union)
