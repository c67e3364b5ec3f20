"""Records that name an entity which their org does not have (contract, "dead.letters")."""

from collections.abc import Mapping
from typing import Any, Final

from streams.rules.decision import Dead
from topics.catalogue import EntityKind

_WHY: Final[Mapping[EntityKind, str]] = {
    "deployment": "it may belong to another org",
    "replica": "it may belong to another org or have left",
    "instance": "it may belong to another org or have left",
}


def unknown(kind: EntityKind, event: Any) -> Dead:
    """Return the dead letter of a record that names an unknown entity of `kind`."""
    return Dead(f"unknown_{kind}", f"org {event.org_id} has no {kind} {getattr(event, f'{kind}_id')}; {_WHY[kind]}")
