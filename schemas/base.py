"""The base class of all wire models, and the limits of a record value."""

from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

Json: TypeAlias = dict[str, Any]
"""A parsed JSON object."""

MAX_VALUE_BYTES: Final = 65_536
"""A longer value is not parsed; it becomes a `too_large` dead letter (contract, "Out")."""

MAX_DEPTH: Final = 32
"""Greatest nesting of objects and arrays, counting the outer object as 1; deeper is `undecodable` (contract, "Out")."""


class Wire(BaseModel):
    """A record's value: strict types, immutable, unknown fields ignored (contract, "Conventions")."""

    model_config = ConfigDict(strict=True, frozen=True, extra="ignore", validate_by_name=True, validate_by_alias=True)

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """List the discriminator as required: its default is for our own code; producers must send it."""
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
    """Marks an optional field in which JSON null means absent, that is, `default` (contract, "Conventions")."""

    default: Any

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Wrap the field's own schema, and allow null in its JSON schema."""
        inner = handler(source)
        default = self.default

        def absent_when_null(value: object) -> object:
            return default if value is None else value

        return core_schema.no_info_before_validator_function(
            absent_when_null, inner, json_schema_input_schema=core_schema.nullable_schema(inner)
        )
