"""What all wire models share, and the bounds of a record as a whole."""

from dataclasses import dataclass
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

Json = dict[str, Any]
"""A JSON object."""

MAX_VALUE_BYTES: Final = 65_536
"""A longer record value is a dead letter `too_large` and is never parsed (contract, "Out")."""

MAX_DEPTH: Final = 32
"""Deepest nesting of objects and arrays, the outer object being 1; deeper is `undecodable` (contract, "Out")."""


class Wire(BaseModel):
    """A record's value: strict types, immutable, unknown fields ignored (contract, "Conventions")."""

    model_config = ConfigDict(strict=True, frozen=True, extra="ignore", validate_by_name=True, validate_by_alias=True)

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Require what tells the models of a topic apart: its default serves code that builds one, not producers."""
        json_schema = handler.resolve_ref_schema(handler(schema))
        required = set(json_schema.get("required", ()))
        for name, field in json_schema["properties"].items():
            if "const" in field:
                field.pop("default", None)
                required.add(name)
        json_schema["required"] = [name for name in json_schema["properties"] if name in required]
        return json_schema


@dataclass(frozen=True, slots=True)
class NullIs:
    """Marks an optional field whose JSON null means the same as its absence: `default` (contract, "Conventions").

    It costs nothing where the field is absent, and nothing in models without such a field.
    """

    default: Any

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Wrap the field's own schema; its JSON schema says that null may stand there."""
        inner = handler(source)
        default = self.default

        def absent_when_null(value: object) -> object:
            return default if value is None else value

        return core_schema.no_info_before_validator_function(
            absent_when_null, inner, json_schema_input_schema=core_schema.nullable_schema(inner)
        )
