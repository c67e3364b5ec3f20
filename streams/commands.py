"""Faust's commands `models` and `model`, over the messages of the topics: these are pydantic models, not Faust's."""

import inspect
from collections.abc import Iterator
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, Final, Union, get_args, get_origin

from faust.cli.base import AppCommand, argument
from pydantic import BaseModel

from topics.catalogue import TOPICS


def _models_of(schema: Any) -> Iterator[type[BaseModel]]:
    """Iterate over the models of a topic: its schema is one, or a union of several."""
    if isinstance(schema, type):
        yield schema
    for part in get_args(schema):
        yield from _models_of(part)


MODELS: Final = {model.__name__: (model, spec) for spec in TOPICS.values() for model in _models_of(spec.schema)}
"""Every message by its class's name, with its topic."""


class models(AppCommand):  # noqa: N801 - Faust takes the command's name from it
    """List the messages of every topic."""

    title = "Models"
    headers: ClassVar = ["name", "topic", "help"]

    async def run(self) -> None:
        """Print the table."""
        rows = [(name, spec.name, _summary(model)) for name, (model, spec) in MODELS.items()]
        self.say(self.tabulate(rows, headers=self.headers, title=self.title))


class model(AppCommand):  # noqa: N801 - Faust takes the command's name from it
    """Show the fields of a message."""

    headers: ClassVar = ["field", "type", "default"]
    options: ClassVar = [argument("name")]

    def __init__(self, *args: Any, name: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if name not in MODELS:
            raise self.UsageError(f"there is no model {name!r}; there are {', '.join(MODELS)}")
        self.model, self.spec = MODELS[name]

    async def run(self) -> None:
        """Print the table."""
        rows = [
            (name, _type(field.annotation), "*" if field.is_required() else repr(field.default))
            for name, field in self.model.model_fields.items()
        ]
        title = f"{self.model.__name__} ({self.spec.name})"
        self.say(self.tabulate(rows, headers=self.headers, title=title, wrap_last_row=False))


def _type(annotation: Any) -> str:
    """Return a type as code writes it, without the constraints of `Annotated`."""
    if get_origin(annotation) is Annotated:
        return _type(get_args(annotation)[0])
    if get_origin(annotation) in {Union, UnionType}:
        return " | ".join(map(_type, get_args(annotation)))
    return "None" if annotation is NoneType else inspect.formatannotation(annotation)


def _summary(model: type[BaseModel]) -> str:
    return (model.__doc__ or "").split("\n")[0]
