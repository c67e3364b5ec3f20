"""What the three state machines have in common: a table of transitions, and one `step` that reads it."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

StateT = TypeVar("StateT", bound=StrEnum)
TriggerT = TypeVar("TriggerT", bound=StrEnum)
TransitionT = TypeVar("TransitionT")


class Stay(StrEnum):
    """Why a trigger makes no transition. `HEARTBEAT`: "healthy" while running counts as a heartbeat (B2)."""

    HEARTBEAT = "heartbeat"
    ALREADY_THERE = "already_there"
    BACKWARDS = "backwards"
    OUT_OF_PLACE = "out_of_place"
    TERMINAL = "terminal"


@dataclass(frozen=True, slots=True)
class Machine(Generic[StateT, TriggerT, TransitionT]):
    """A state machine: `table` has a row for every state; `terminal` states have an empty one."""

    table: Mapping[StateT, Mapping[TriggerT, TransitionT | Stay]]
    terminal: frozenset[StateT]

    def step(self, state: StateT, trigger: TriggerT) -> TransitionT | Stay:
        """Return the transition from `state` on `trigger`, or why there is none."""
        if state in self.terminal:
            return Stay.TERMINAL
        return self.table[state].get(trigger, Stay.OUT_OF_PLACE)
