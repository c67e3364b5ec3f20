"""The way into the rules: one record in, its effect on the book and the decision out."""

from collections.abc import Callable, Sequence
from typing import Any

from schemas.accounts import BalanceUpdated, OrgReinstated, OrgSuspended
from schemas.base import Wire
from schemas.clock import Tick
from schemas.commands import (
    CreateDeployment,
    DeployInstance,
    DestroyInstance,
    StartInstance,
    StopDeployment,
    StopInstance,
)
from schemas.heartbeats import Heartbeat
from schemas.progress import Progress
from schemas.reports import LaunchFailed, OtherReport
from schemas.requests import InferenceRequest
from streams.billing.prices import Prices
from streams.billing.windows import Origin
from streams.rules import accounts, deployments, rentals, results
from streams.rules.book import Book
from streams.rules.context import Switches, Turn
from streams.rules.decision import Dead, Decision
from streams.rules.progress import apply_heartbeats, apply_progress, unknown_replica
from streams.rules.reports import apply_report, unknown_instance
from streams.rules.results import Refusal
from streams.rules.tick import apply_tick

Handler = Callable[[Turn, Any], Refusal | str]

HANDLERS: dict[type[Wire], Handler] = {
    CreateDeployment: deployments.create,
    StopDeployment: deployments.stop,
    DeployInstance: rentals.deploy,
    StartInstance: rentals.start,
    StopInstance: rentals.stop,
    DestroyInstance: rentals.destroy,
}

# What a suspended org may not do (B22).
BEGINNING = (CreateDeployment, DeployInstance, StartInstance)


class Accountant:
    """Applies records to one partition's book, in the order in which they are given."""

    def __init__(self, book: Book, prices: Prices, switches: Switches) -> None:
        self.book = book
        self.prices = prices
        self.switches = switches

    def apply(self, event: Wire, origin: Origin, decision: Decision) -> Dead | None:
        """Apply one parsed record; now is `origin.timestamp`. What is returned makes a dead letter of the record."""
        match event:
            case Tick():
                apply_tick(self.book, self.prices, self.switches, origin, decision)
                return None
            case Heartbeat():
                dead = apply_heartbeats(self.book, [event], [origin], decision)
                return dead[0][1] if dead else None
            case Progress() | LaunchFailed() | OtherReport() | InferenceRequest():
                if event.org_id not in self.book.orgs:
                    return _unknown(event)
                return self._apply_to_org(event, origin, decision)
            case _:
                return self._apply_to_org(event, origin, decision)

    def heartbeats(
        self, beats: Sequence[Heartbeat], origins: Sequence[Origin], decision: Decision
    ) -> list[tuple[int, Dead]]:
        """Apply a run of heartbeats; returns the position and the fault of each that is a dead letter."""
        return apply_heartbeats(self.book, beats, origins, decision)

    def refuse(
        self, command_id: str, org_id: str, target: str | None, error: str, origin: Origin, decision: Decision
    ) -> None:
        """Answer `INVALID` to a command that could not be read but whose `command_id` and `org_id` are good."""
        turn = self._turn(org_id, origin, decision)
        if not results.repeat(turn, command_id):
            results.answer(turn, command_id, target, Refusal("INVALID", f"command {command_id} can't be read: {error}"))

    def _apply_to_org(self, event: Any, origin: Origin, decision: Decision) -> Dead | None:
        turn = self._turn(event.org_id, origin, decision)
        match event:
            case Progress():
                return apply_progress(turn, event)
            case LaunchFailed() | OtherReport():
                return apply_report(turn, event)
            case InferenceRequest():
                return deployments.apply_request(turn, event)
            case BalanceUpdated():
                accounts.apply_balance(turn, event)
            case OrgSuspended() | OrgReinstated():
                accounts.apply_standing(turn, event)
            case _:
                _command(turn, event)
        return None

    def _turn(self, org_id: str, origin: Origin, decision: Decision) -> Turn:
        return Turn(self.book, self.book.org(org_id), self.prices, self.switches, origin, decision)


def _command(turn: Turn, command: Any) -> None:
    if results.repeat(turn, command.command_id):
        return
    target = getattr(command, "deployment_id", None) or getattr(command, "instance_id", None)
    if turn.rows.org.suspended and isinstance(command, BEGINNING):
        outcome: Refusal | str = Refusal(
            "ORG_SUSPENDED",
            f"org {turn.org_id} is suspended; {command.type} of {target} was asked, only stopping and destroying are "
            f"allowed until Croesus reinstates it",
        )
    else:
        outcome = HANDLERS[type(command)](turn, command)
    results.answer(turn, command.command_id, target, outcome)


def _unknown(event: Progress | LaunchFailed | OtherReport | InferenceRequest) -> Dead:
    match event:
        case Progress():
            return unknown_replica(event.org_id, event.replica_id)
        case InferenceRequest():
            return deployments.unknown_deployment(event.org_id, event.deployment_id)
        case _:
            return unknown_instance(event.org_id, event.instance_id)
