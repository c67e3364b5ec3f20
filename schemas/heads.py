"""The part of a record that is needed when the rest is no good."""

from schemas.base import Wire
from schemas.ids import CommandId, OrgId


class OrgHead(Wire):
    """Any inbound record with an org: enough to put it into its right partition (contract, "Conventions")."""

    org_id: OrgId


class CommandHead(OrgHead):
    """A command whose ids are good: enough to answer it with `INVALID` (contract, "Out")."""

    command_id: CommandId
