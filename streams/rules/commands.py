"""Commands of users and operators: the function that applies each, and what a suspended org may not do (C1, B22)."""

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
    """A command: what applies it, and whether it begins something, which a suspended org may not (B22)."""

    handler: Callable[[Turn, Any], Refusal | str]
    begins: bool


COMMANDS: Final[Mapping[type[Wire], CommandRow]] = {
    CreateDeployment: CommandRow(deployments.create, begins=True),
    StopDeployment: CommandRow(deployments.stop, begins=False),
    DeployInstance: CommandRow(instance_commands.deploy, begins=True),
    StartInstance: CommandRow(instance_commands.start, begins=True),
    StopInstance: CommandRow(instance_commands.stop, begins=False),
    DestroyInstance: CommandRow(instance_commands.destroy, begins=False),
    CreditWindow: CommandRow(operator_commands.credit_window, begins=False),
}


def apply_command(turn: Turn, command: Any) -> None:
    """Apply a command and send its one result; a repeated one gets the same result again (C1)."""
    if results.repeat(turn, command.command_id):
        return
    row = COMMANDS[type(command)]
    target = getattr(command, target_field(type(command)))
    if turn.rows.org.suspended and row.begins:
        outcome: Refusal | str = Refusal(
            "ORG_SUSPENDED",
            f"org {turn.org_id} is suspended; {command.type} of {target} was asked, only stopping and destroying are "
            f"allowed until Croesus reinstates it",
        )
    else:
        outcome = row.handler(turn, command)
    results.answer(turn, command.command_id, target, outcome)


def refuse_command(turn: Turn, command_id: str, target: str | None, error: str) -> None:
    """Send `INVALID` for a command that could not be read but whose `command_id` and `org_id` are good."""
    if not results.repeat(turn, command_id):
        results.answer(turn, command_id, target, Refusal("INVALID", f"command {command_id} can't be read: {error}"))
