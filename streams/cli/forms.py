"""Command-line options generated from the wire models: one option for each field."""

import inspect
import keyword
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, get_args

import typer

from schemas.base import Json, Wire
from streams.cli.failure import EXIT_USAGE, Failure

GENERATED_IDS: Final = ("event_id", "command_id")
"""Generated when not given, so that no two records share one by accident (C1, C4)."""

_SCALARS: Final[dict[str, Any]] = {"string": str, "integer": int, "boolean": bool}


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A field of a record as an option. `path`: its names through nested objects, such as (`template`, `mode`)."""

    path: tuple[str, ...]
    type: Any
    help: str
    required: bool
    default: Any = None

    @property
    def parameter(self) -> str:
        """The name of the Python parameter."""
        name = "_".join(self.path)
        return f"{name}_" if keyword.iskeyword(name) else name

    @property
    def options(self) -> tuple[str, ...]:
        """Its spellings: `--deployment` and `--deployment-id`; a boolean also has its `--no-…`."""
        long = "--" + "-".join(self.path).replace("_", "-")
        if self.type == list[str]:
            return (long.removesuffix("s"),)
        if self.type is bool:
            return (f"{long}/--no-{long.removeprefix('--')}",)
        return (long.removesuffix("-id"), long) if self.path[-1].endswith("_id") else (long,)

    @property
    def option(self) -> str:
        """The spelling that messages use."""
        return self.options[0].partition("/")[0]


def fields(model: type[Wire], without: Iterable[str] = ()) -> list[Field]:
    """Return the fields of `model` in its order, without constants and the names in `without`."""
    schema = model.model_json_schema()
    return list(_fields(schema, schema.get("$defs", {}), (), frozenset(without)))


def _fields(
    schema: Mapping[str, Any], defs: Mapping[str, Any], above: tuple[str, ...], without: frozenset[str]
) -> Iterable[Field]:
    required = schema.get("required", ())
    for name, given in schema["properties"].items():
        spec = _resolved(given, defs)
        path = (*above, name)
        if "const" in spec or name in without:
            continue
        if "additionalProperties" in spec or "patternProperties" in spec:
            yield Field(path=path, type=list[str], help=_pairs_help(spec), required=False)
            continue
        if spec.get("type") == "object":
            yield from _fields(spec, defs, path, without)
            continue
        type_ = Literal[tuple(spec["enum"])] if "enum" in spec else _SCALARS[spec["type"]]
        generated = name in GENERATED_IDS
        yield Field(
            path=path,
            type=type_,
            help=_help(
                spec.get("description", ""),
                generated=generated,
                required=name in required,
                default=given.get("default"),
            ),
            required=name in required and not generated,
            default=given.get("default"),
        )


def _resolved(spec: Mapping[str, Any], defs: Mapping[str, Any]) -> Mapping[str, Any]:
    """Resolve references and "or null". The outermost description wins."""
    inner = spec
    while True:
        if "$ref" in inner:
            inner = defs[inner["$ref"].rpartition("/")[2]]
        elif "anyOf" in inner:
            inner = next(option for option in inner["anyOf"] if option.get("type") != "null")
        else:
            break
    return {**inner, **({"description": spec["description"]} if "description" in spec else {})}


def _help(description: str, *, generated: bool, required: bool, default: Any) -> str:
    text = description.replace("`", "")
    if generated:
        return f"{text} (default: generated)"
    if required:
        return f"{text} (required)"
    return (
        text if default in (None, "") else f"{text} (default: {str(default).lower() if default is True else default})"
    )


def _pairs_help(spec: Mapping[str, Any]) -> str:
    return f"{spec.get('description', '').replace('`', '')} As KEY=VALUE; repeat it for more."


def _pairs(field: Field, given: Iterable[str]) -> dict[str, str]:
    """Return KEY=VALUE options as an object. Raises `Failure` for one without a `=`."""
    pairs = {}
    for text in given:
        key, separator, value = text.partition("=")
        if not separator:
            raise Failure(f"{field.option} {text}: write it as KEY=VALUE, such as team=nlp", EXIT_USAGE)
        pairs[key] = value
    return pairs


def body(form: Iterable[Field], values: Mapping[str, Any]) -> Json:
    """Return the record's JSON object, from the values of the options."""
    record: Json = {}
    for field in form:
        value = values.get(field.parameter)
        if value is None or value == []:
            continue
        if field.type == list[str]:
            value = _pairs(field, value)
        parent = record
        for part in field.path[:-1]:
            parent = parent.setdefault(part, {})
        parent[field.path[-1]] = value
    return record


def with_option_names(error: str, form: Iterable[Field]) -> str:
    """Replace the field names in a validation error by option names."""
    names = {".".join(field.path): field.option for field in form}
    # When no field of a nested object is given, the error names the object; replace it by its first option.
    for field in form:
        if len(field.path) > 1:
            names.setdefault(".".join(field.path[:-1]), field.option)
    message = re.sub(r"(^|; )([a-z_.]+): ", lambda part: f"{part[1]}{names.get(part[2], part[2])}: ", error)
    return message.replace("field required", "is required")


def command(
    name: str, doc: str, form: Iterable[Field], extra: Mapping[str, tuple[Any, Any]], action: Callable[[Json], None]
) -> Callable[..., None]:
    """Return a Typer command with an option for each field, then `extra` (name → annotation and default)."""

    def function(**values: Any) -> None:
        action(values)

    parameters = [
        inspect.Parameter(
            field.parameter,
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=Annotated[field.type | None, typer.Option(*field.options, help=field.help, show_default=False)],
        )
        for field in form
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
    """Return the models of a topic's schema: the members of a union, or the one model."""
    if isinstance(schema, type):
        return (schema,)
    union = get_args(schema)[0]
    return get_args(union)
