"""Command results: one for each command, and the same again for a repeated command (rules C1, C2)."""

from typing import NamedTuple, get_args

from schemas.results import CommandResult, ResultCode
from schemas.times import rfc3339
from streams.limits import DEDUPE_MS, MAX_RESULTS_WITH_REASON
from streams.rules.context import Turn
from streams.rules.decision import LogLine
from streams.rules.rows import CommandMemory, OperatorCommandMemory
from topics.catalogue import OPERATOR_COMMANDS, RESULTS

STATUS: dict[ResultCode, int] = {
    "INVALID": 400,
    "ORG_SUSPENDED": 403,
    "NOT_FOUND": 404,
    "ALREADY_EXISTS": 409,
    "ILLEGAL_TRANSITION": 409,
    "INSTANCE_LIMIT": 409,
    "UNPRICED_PROFILE": 422,
    "INSUFFICIENT_BALANCE": 402,
    "NOTHING_TO_CREDIT": 409,
}
ACCEPTED = 202

assert tuple(STATUS) == get_args(ResultCode)


class Refusal(NamedTuple):
    """Why a command is rejected. It changes no row but its command memory (C2)."""

    code: ResultCode
    message: str


def already_used(turn: Turn, kind: str, entity_id: str, asked: str) -> Refusal | None:
    """Return the refusal of a command that would use an id again too early, else None (contract, "Conventions")."""
    used = turn.rows.used_ids.get(f"{kind}/{entity_id}")
    if used is None or turn.now >= used.left_at + turn.store.id_retention_ms:
        return None
    return Refusal(
        "ALREADY_EXISTS",
        f"{used.kind} {used.entity_id} existed before, until {rfc3339(used.left_at)}; {asked} needs an id never used",
    )


def send_again(turn: Turn, command_id: str) -> bool:
    """Send the same result again if the command is remembered; return whether it is (C1).

    Operators' commands are remembered apart from users'; one that named an existing window, as long as its row.
    """
    if turn.origin.topic == OPERATOR_COMMANDS.name:
        by_operator = turn.rows.operator_answers.get(command_id)
        known: CommandMemory | OperatorCommandMemory | None = by_operator
        is_kept = by_operator is not None and by_operator.window_id in turn.rows.windows
    else:
        known, is_kept = turn.rows.answers.get(command_id), False
    if known is None or (turn.now >= known.at + DEDUPE_MS and not is_kept):
        return False
    turn.decision.counts["duplicate", turn.origin.topic] += 1
    _send(turn, known.value or _without_reason(turn.org_id, command_id, known.at))
    return True


def send_unread(turn: Turn, command_id: str, target: str | None, error: str) -> None:
    """Send `INVALID` for a command that could not be read; beyond `MAX_RESULTS_WITH_REASON`, without a reason.

    Of such a result only the time is remembered, so that many of them cost little memory.
    """
    remembered = len(turn.rows.answers)
    if turn.origin.topic == OPERATOR_COMMANDS.name or remembered < MAX_RESULTS_WITH_REASON:
        send_result(turn, command_id, target, Refusal("INVALID", f"command {command_id} can't be read: {error}"))
        return
    if remembered == MAX_RESULTS_WITH_REASON:
        fields: dict[str, str | int | None] = {"org_id": turn.org_id, "results": remembered}
        turn.decision.log_lines.append(
            LogLine("warning", "an org has too many remembered results; INVALID has no reason any more", fields)
        )
    turn.store.add(CommandMemory(turn.org_id, command_id, turn.now, ""))
    _send(turn, _without_reason(turn.org_id, command_id, turn.now))


def _without_reason(org_id: str, command_id: str, at: int) -> str:
    """Return the result, without a reason, of a command that could not be read; the same each time."""
    words = f"command {command_id} can't be read; the org has too many results in 24 h for the reason"
    return _encoded(org_id, command_id, None, Refusal("INVALID", words), at)


def send_result(turn: Turn, command_id: str, target: str | None, outcome: Refusal | str) -> None:
    """Send and remember the result of a command (C1). A string is the message of an accepted one."""
    by_operator = turn.origin.topic == OPERATOR_COMMANDS.name
    value = _encoded(turn.org_id, command_id, target, outcome, turn.now, by_operator=by_operator)
    if by_operator:
        # The window of an invalid command was not looked up.
        is_invalid = isinstance(outcome, Refusal) and outcome.code == "INVALID"
        window_id = target if target in turn.rows.windows and not is_invalid else None
        turn.store.add(OperatorCommandMemory(turn.org_id, command_id, turn.now, value, window_id))
    else:
        turn.store.add(CommandMemory(turn.org_id, command_id, turn.now, value))
    _send(turn, value)


def _encoded(
    org_id: str, command_id: str, target: str | None, outcome: Refusal | str, at: int, *, by_operator: bool = False
) -> str:
    refusal = outcome if isinstance(outcome, Refusal) else None
    return CommandResult(
        command_id=command_id,
        org_id=org_id,
        outcome="rejected" if refusal else "accepted",
        code=refusal.code if refusal else None,
        status=STATUS[refusal.code] if refusal else ACCEPTED,
        message=refusal.message if refusal else str(outcome),
        target=target,
        at=rfc3339(at),
        operator=True if by_operator else None,
    ).model_dump_json(exclude_none=True)


def _send(turn: Turn, value: str) -> None:
    turn.decision.send(RESULTS.name, turn.org_id, turn.now, value.encode())
