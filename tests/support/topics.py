"""Maps a wire model to its topic."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

from topics.catalogue import INBOUND

if TYPE_CHECKING:
    from schemas.base import Wire

_TOPICS = {
    model: spec.name
    for spec in INBOUND
    for model in (get_args(get_args(spec.schema)[0]) if get_args(spec.schema) else (spec.schema,))
}


def topic_of(event: Wire) -> str:
    """Return the inbound topic (without namespace) of a record's model."""
    return _TOPICS[type(event)]
