"""The part of a record that is still used when the rest is invalid."""

from schemas.base import Wire
from schemas.ids import CommandId, OrgId


class OrgHead(Wire):
    """Any input record with a valid org: enough to determine its partition (contract, "Conventions")."""

    org_id: OrgId


class CommandHead(OrgHead):
    """A command whose ids are valid: enough to reject it with an `INVALID` result (contract, "Out")."""

    command_id: CommandId
