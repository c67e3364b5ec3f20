"""Commands: each gets one result, and the same one when it comes again within 24 h (rules C1, C2)."""

from typing import NamedTuple, get_args

from schemas.results import CommandResult, ResultCode
from schemas.times import rfc3339
from streams.limits import DEDUPE_MS
from streams.rules.context import Turn
from streams.rules.rows import Answer

TOPIC = "command.results"

STATUS: dict[ResultCode, int] = {
    "INVALID": 400,
    "ORG_SUSPENDED": 403,
    "NOT_FOUND": 404,
    "ALREADY_EXISTS": 409,
    "ILLEGAL_TRANSITION": 409,
    "INSTANCE_LIMIT": 409,
    "UNPRICED_PROFILE": 422,
    "INSUFFICIENT_BALANCE": 402,
}
ACCEPTED = 202

assert tuple(STATUS) == get_args(ResultCode)


class Refusal(NamedTuple):
    """Why a command is refused: it changes nothing but its result (C2)."""

    code: ResultCode
    message: str


def repeat(turn: Turn, command_id: str) -> bool:
    """Send the earlier result again, word for word, if there is one of the last 24 h; return whether there is (C1)."""
    answer = turn.rows.answers.get(command_id)
    if answer is None or turn.now >= answer.at + DEDUPE_MS:
        return False
    turn.decision.counts["duplicate", "user.commands"] += 1
    turn.decision.send(TOPIC, turn.org_id, turn.now, answer.value.encode())
    return True


def answer(turn: Turn, command_id: str, target: str | None, outcome: Refusal | str) -> None:
    """Send and keep the command's one result (C1); a string is the message of an accepted one."""
    refusal = outcome if isinstance(outcome, Refusal) else None
    result = CommandResult(
        command_id=command_id,
        org_id=turn.org_id,
        outcome="rejected" if refusal else "accepted",
        code=refusal.code if refusal else None,
        status=STATUS[refusal.code] if refusal else ACCEPTED,
        message=refusal.message if refusal else str(outcome),
        target=target,
        at=rfc3339(turn.now),
    )
    value = result.model_dump_json(by_alias=True, exclude_none=True)
    turn.store.add(Answer(turn.org_id, command_id, turn.now, value))
    turn.decision.send(TOPIC, turn.org_id, turn.now, value.encode())
