"""Commands of operators: credits for a window (rule B13)."""

from schemas.operator import CreditWindow
from schemas.times import parse_any_rfc3339
from streams.rules.charging import owe
from streams.rules.context import Turn
from streams.rules.results import Refusal


def credit_window(turn: Turn, command: CreditWindow) -> Refusal | str:
    """Owe back the part of a window between two times that was billed and is not yet owed back (B13)."""
    window = turn.rows.windows.get(command.window_id)
    if window is None:
        return Refusal(
            "NOT_FOUND",
            f"window {command.window_id} is not known in org {turn.org_id}, or has left its table; credit_window needs "
            f"one that is kept",
        )
    start, end = parse_any_rfc3339(command.from_), parse_any_rfc3339(command.until)
    billed_ms = max(0, min(end, window.billed_to) - max(start, window.opened_at))
    owed_ms = owe(turn, window, start, end, "operator", command.note)
    asked_ms = end - start
    if not owed_ms:
        return Refusal(
            "NOTHING_TO_CREDIT",
            f"of the {asked_ms} ms asked for, {billed_ms} ms of window {window.window_id} were billed, all of it owed "
            f"back already; credit_window needs time that was billed and is not yet owed back",
        )
    why = []
    if billed_ms < asked_ms:
        why.append(f"{asked_ms - billed_ms} ms were not billed")
    if owed_ms < billed_ms:
        why.append(f"{billed_ms - owed_ms} ms were owed back already")
    less = f", of {asked_ms} ms asked for: {' and '.join(why)}" if why else ""
    return f"{owed_ms} ms of window {window.window_id} are now owed back{less}"
