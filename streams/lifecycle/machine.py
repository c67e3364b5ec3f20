"""What the three state machines have in common: a table of moves, and one `step` that reads it."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

StateT = TypeVar("StateT", bound=StrEnum)
TriggerT = TypeVar("TriggerT", bound=StrEnum)
MoveT = TypeVar("MoveT")


class Stay(StrEnum):
    """Why a trigger moves nothing. `HEARTBEAT` is expected: "healthy" while running is a sign of life (B2)."""

    HEARTBEAT = "heartbeat"
    ALREADY_THERE = "already_there"
    BACKWARDS = "backwards"
    OUT_OF_PLACE = "out_of_place"
    TERMINAL = "terminal"


@dataclass(frozen=True, slots=True)
class Machine(Generic[StateT, TriggerT, MoveT]):
    """A state machine: `table` has a row for every state; `terminal` states have an empty one."""

    table: Mapping[StateT, Mapping[TriggerT, MoveT | Stay]]
    terminal: frozenset[StateT]

    def step(self, state: StateT, trigger: TriggerT) -> MoveT | Stay:
        """Return the move that `trigger` makes from `state`, or why there is none."""
        if state in self.terminal:
            return Stay.TERMINAL
        return self.table[state].get(trigger, Stay.OUT_OF_PLACE)
