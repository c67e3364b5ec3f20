"""The timeline of an entity as a picture: its stretches and marks. Made from the views' JSON, so the two agree."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from schemas.base import Json
from schemas.times import parse_rfc3339
from streams.billing.minutes import floor_minute
from streams.lifecycle.instance import STAGES
from streams.limits import DAY_MS, HEARTBEAT_GRACE_MS, HOUR_MS, MINUTE_MS
from streams.web.times import time_text

_STEPS_MS = (
    MINUTE_MS,
    5 * MINUTE_MS,
    15 * MINUTE_MS,
    30 * MINUTE_MS,
    HOUR_MS,
    3 * HOUR_MS,
    6 * HOUR_MS,
    12 * HOUR_MS,
    DAY_MS,
    7 * DAY_MS,
    28 * DAY_MS,
)
_MOST_STEPS = 8
_SHORTEST_MS = 1_000
_WORDS = {
    "billed": "billed",
    "pending": "pending, billed at the next ticks",
    "paused": "paused: no heartbeat",
    "held": "held",
    "forgiven": "forgiven, never billed",
    "overbilled": "billed beyond the end",
}
# Of a stage's meters the first alone draws its state.
_STATE_OF = {"dedicated": "running"} | {row.runs[0]: row.state.value for row in STAGES.values() if row.runs}


@dataclass(frozen=True, slots=True)
class Stretch:
    """A stretch of time on a lane. `kind` is its colour, `words` its meaning; `x` and `width` are percent."""

    lane: str
    kind: str
    words: str
    start_ms: int
    end_ms: int
    x: float
    width: float

    @property
    def start(self) -> str:
        """Its start, RFC 3339."""
        return time_text(self.start_ms)

    @property
    def end(self) -> str:
        """Its end, RFC 3339."""
        return time_text(self.end_ms)

    @property
    def duration_ms(self) -> int:
        """Its length."""
        return self.end_ms - self.start_ms


@dataclass(frozen=True, slots=True)
class Mark:
    """One instant: a last heartbeat, or how far it bounds what is billed."""

    kind: str
    words: str
    at: str
    x: float


@dataclass(frozen=True, slots=True)
class Timeline:
    """The whole picture. `lanes` are in the order in which they are drawn."""

    start: str
    end: str
    lanes: dict[str, list[Stretch]]
    marks: list[Mark]
    steps: list[tuple[float, str]]

    @property
    def stretches(self) -> list[Stretch]:
        """All stretches, lane by lane."""
        return [stretch for lane in self.lanes.values() for stretch in lane]


class _Scale:
    def __init__(self, start_ms: int, end_ms: int) -> None:
        self.start_ms = start_ms
        self.end_ms = max(end_ms, start_ms + _SHORTEST_MS)

    def x(self, at_ms: int) -> float:
        return round(100 * (at_ms - self.start_ms) / (self.end_ms - self.start_ms), 3)

    def stretch(self, lane: str, kind: str, words: str, start_ms: int, end_ms: int) -> Stretch:
        x = self.x(start_ms)
        return Stretch(lane, kind, words, start_ms, end_ms, x, round(self.x(end_ms) - x, 3))

    def steps(self) -> list[tuple[float, str]]:
        span = self.end_ms - self.start_ms
        step = next((one for one in _STEPS_MS if span <= one * _MOST_STEPS), _STEPS_MS[-1])
        first = -(-self.start_ms // step) * step
        return [
            (self.x(at), time_text(at)[5:10] if step >= DAY_MS else time_text(at)[11:16])
            for at in range(first, self.end_ms, max(step, floor_minute(span // _MOST_STEPS)))
        ]


def build(entity: Json, history: Sequence[Json], most: int) -> Timeline:
    """Return the picture of a replica's or an instance's JSON, with its changes of state where they are known.

    `history` has `to` and `at` of every change, oldest first; empty: states are derived from the windows. Only the
    newest `most` windows and changes are drawn, and the picture starts with them.
    """
    start = max(_start_of(entity["windows"], "opened_at", most), _start_of(history, "at", most))
    start = max(start, parse_rfc3339(entity["created_at"]))
    windows = entity["windows"][-most:]
    end = max([parse_rfc3339(entity["as_of"]), start, *(parse_rfc3339(one["billed_until"]) for one in windows)])
    if entity["ended_at"] is not None:
        end = max([parse_rfc3339(entity["ended_at"]), start, *(_end_of(one, start) for one in windows)])
    scale = _Scale(start, end)
    if history:
        known = _from_history(history[-most:], scale.end_ms)
    else:
        known = _from_windows(entity, windows, start, scale.end_ms)
    lanes: dict[str, list[Stretch]] = {
        "State": [
            scale.stretch("State", state, state.replace("_", " "), max(since, start), until)
            for state, since, until in known
            if until > max(since, start)
        ],
    }
    for one in windows:
        lane = f"Billing · {one['meter']}"
        for kind, words, since, until in _billing(one):
            if until > max(since, start):
                lanes.setdefault(lane, []).append(scale.stretch(lane, kind, words, max(since, start), until))
    marks = [mark for one in windows for mark in _marks(scale, one)]
    return Timeline(time_text(start), time_text(scale.end_ms), lanes, marks, scale.steps())


def _start_of(items: Sequence[Json], name: str, most: int) -> int:
    """Return the time of the first of the newest `most` items; 0 where there are no more than these."""
    return parse_rfc3339(items[-most][name]) if len(items) > most else 0


def _end_of(window: Json, otherwise: int) -> int:
    return otherwise if window["ended_at"] is None else parse_rfc3339(window["ended_at"])


def _from_history(history: Sequence[Json], end_ms: int) -> Iterator[tuple[str, int, int]]:
    for change, following in zip(history, [*history[1:], None], strict=True):
        until = end_ms if following is None else parse_rfc3339(following["at"])
        yield change["to"], parse_rfc3339(change["at"]), until


def _from_windows(entity: Json, windows: Sequence[Json], start_ms: int, end_ms: int) -> Iterator[tuple[str, int, int]]:
    """A window is a stretch of running, or of stopped; between two of a replica it was restarting."""
    is_replica = "replica_id" in entity
    now = entity["status"] if is_replica else entity["state"]
    at = start_ms
    before = "starting" if is_replica else "creating"
    for window in (one for one in windows if one["meter"] in _STATE_OF):
        opened = parse_rfc3339(window["opened_at"])
        ended = end_ms if window["ended_at"] is None else parse_rfc3339(window["ended_at"])
        yield before, at, opened
        yield _STATE_OF[window["meter"]], opened, ended
        at, before = ended, ("restarting" if is_replica else "in between")
    if entity["ended_at"] is not None:
        yield before, at, parse_rfc3339(entity["ended_at"])
    else:
        yield now, at, end_ms


def _billing(window: Json) -> Iterator[tuple[str, str, int, int]]:
    """Yield a window's time as billed, pending and forgiven stretches; they add up to its figures (B12)."""
    opened = parse_rfc3339(window["opened_at"])
    ended = None if window["ended_at"] is None else parse_rfc3339(window["ended_at"])
    billed_to = opened + window["billed_ms"]
    yield "billed", _WORDS["billed"], opened, billed_to if not window["overbilled_ms"] else ended or billed_to
    if window["overbilled_ms"]:
        yield "overbilled", _WORDS["overbilled"], ended or billed_to, billed_to
    pending_to = billed_to + window["pending_ms"]
    held = window["held"]
    if held == "no_heartbeat":
        yield "paused", _WORDS["paused"], billed_to, pending_to
    elif held is not None:
        yield "held", f"{_WORDS['held']}: {held.replace('_', ' ')}", billed_to, pending_to
    else:
        yield "pending", _WORDS["pending"], billed_to, pending_to
    if window["forgiven_ms"]:
        yield "forgiven", _WORDS["forgiven"], pending_to, pending_to + window["forgiven_ms"]


def _marks(scale: _Scale, window: Json) -> Iterator[Mark]:
    if window["last_health_check"] is None:
        return
    heartbeat = parse_rfc3339(window["last_health_check"])
    if heartbeat >= scale.start_ms:
        yield Mark("heartbeat", f"last heartbeat of {window['window_id']}", time_text(heartbeat), scale.x(heartbeat))
    bound = heartbeat + HEARTBEAT_GRACE_MS
    if scale.start_ms <= bound <= scale.end_ms:
        yield Mark("bound", "90 s after it: nothing later is billed", time_text(bound), scale.x(bound))
