"""Commands of users and operators: the function that applies each, and which are open to a suspended org (C1, B22)."""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from schemas.base import Wire
from schemas.commands import (
    CreateDeployment,
    DeployInstance,
    DestroyInstance,
    StartInstance,
    StopDeployment,
    StopInstance,
    target_field,
)
from schemas.operator import CreditWindow
from streams.rules import deployments, instance_commands, operator_commands, results
from streams.rules.context import Turn
from streams.rules.results import Refusal


class CommandRow(NamedTuple):
    """The function that applies a command, and whether it is rejected while its org is suspended (B22)."""

    handler: Callable[[Turn, Any], Refusal | str]
    needs_active_org: bool


COMMANDS: Final[Mapping[type[Wire], CommandRow]] = {
    CreateDeployment: CommandRow(deployments.create, needs_active_org=True),
    StopDeployment: CommandRow(deployments.stop, needs_active_org=False),
    DeployInstance: CommandRow(instance_commands.deploy, needs_active_org=True),
    StartInstance: CommandRow(instance_commands.start, needs_active_org=True),
    StopInstance: CommandRow(instance_commands.stop, needs_active_org=False),
    DestroyInstance: CommandRow(instance_commands.destroy, needs_active_org=False),
    CreditWindow: CommandRow(operator_commands.credit_window, needs_active_org=False),
}


def apply_command(turn: Turn, command: Any) -> None:
    """Apply a command and send its one result; a repeated one gets the same result again (C1)."""
    if results.send_again(turn, command.command_id):
        return
    row = COMMANDS[type(command)]
    target = getattr(command, target_field(type(command)))
    if turn.rows.org.suspended and row.needs_active_org:
        outcome: Refusal | str = Refusal(
            "ORG_SUSPENDED",
            f"org {turn.org_id} is suspended; {command.type} of {target} was asked, only stopping and destroying are "
            f"allowed until Croesus reinstates it",
        )
    else:
        outcome = row.handler(turn, command)
    results.send_result(turn, command.command_id, target, outcome)


def refuse_command(turn: Turn, command_id: str, target: str | None, error: str) -> None:
    """Send `INVALID` for a command that could not be read but whose `command_id` and `org_id` are good."""
    if not results.send_again(turn, command_id):
        results.send_unread(turn, command_id, target, error)
