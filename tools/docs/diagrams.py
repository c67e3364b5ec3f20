"""A page for each lifecycle, its diagram and its table made from the transition table that the rules use."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from streams.lifecycle import deployment, instance, replica
from streams.limits import MINUTE_MS

if TYPE_CHECKING:
    from collections.abc import Iterable

BEGINNING = END = "[*]"
PENDING = "running, a stop pending"
"""How a reader sees the stage `stop_pending` (I1)."""


class Edge(NamedTuple):
    """An arrow: `on` moves an entity from one state to another."""

    from_: str
    to: str
    on: str


def diagram_pages() -> dict[str, str]:
    """Each page's text by its path; the same tables make the same bytes."""
    return {
        "docs/diagrams/deployment.md": _deployment(),
        "docs/diagrams/instance.md": _instance(),
        "docs/diagrams/replica.md": _replica(),
    }


def _deployment() -> str:
    edges = [Edge(BEGINNING, "created", "create_deployment")]
    edges += [
        Edge(status, to, trigger) for status, row in deployment.TRANSITIONS.items() for trigger, to in row.items()
    ]
    moves = [[edge.from_, edge.on, edge.to] for edge in edges[1:]]
    return _page(
        "Deployment",
        deployment,
        _mermaid(edges, ends=deployment.TERMINAL),
        _table(["from", "on", "to"], moves),
    )


def _replica() -> str:
    edges = [Edge(BEGINNING, "pending", "submit_job")]
    moves: list[list[str]] = []
    for status, row in replica.TRANSITIONS.items():
        if status in replica.TERMINAL:
            continue
        for signal, move in row.items():
            if isinstance(move, replica.ReplicaMove):
                edges.append(Edge(status, move.to, move.fail_reason or signal))
                reason = (move.fail_reason or "") + (", fatal" if move.fatal else "")
                moves.append([status, signal, move.to, reason])
        edges.append(Edge(status, replica.ReplicaStatus.STOPPED, "its deployment stops or pauses"))
    return _page(
        "Replica",
        replica,
        _mermaid(edges, ends=replica.TERMINAL),
        "What a progress callback says, and where it leads. A deployment that stops or pauses takes its replicas with "
        "it, from any status that is not terminal. Any other callback changes nothing.",
        _table(["from", "on", "to", "fail reason"], moves),
    )


def _instance() -> str:
    edges = [Edge(BEGINNING, "creating", "deploy")]
    moves: list[list[str]] = []
    for stage, row in instance.STAGES.items():
        for trigger, move in row.moves.items():
            from_, to = _stage(stage), _stage(move.to)
            edges.append(Edge(from_, to, trigger))
            path = f"{move.through}, {to}" if move.through else to
            code = trigger if move.explains else ""
            moves.append([from_, trigger, path, move.order or "", code, "released" if move.releases else ""])
    stages = [
        [
            _stage(stage),
            "yes" if row.transitional else "no",
            ", ".join(row.runs) or "none",
            ", ".join(row.allowed),
            "" if row.times_out is None else f"{row.times_out[0] // MINUTE_MS} min: {row.times_out[1]}",
            row.serves or "",
            row.resends or "",
        ]
        for stage, row in instance.STAGES.items()
    ]
    return _page(
        "Instance",
        instance,
        _mermaid(edges, ends=[instance.InstanceState.DESTROYED]),
        _table(["state", "transitional", "meters", "allowed actions", "times out", "order", "sent again"], stages),
        "What moves an instance: a user's action, a host's report, time or balance. Whatever has no row is refused (a "
        "command) or ignored (a report), and the instance stays where it is. A launch that failed before it reached "
        "its host keeps its GPUs.",
        _table(["from", "on", "to", "order", "error code", "GPUs"], moves),
    )


def _stage(stage: instance.InstanceStage) -> str:
    return PENDING if stage is instance.InstanceStage.STOP_PENDING else stage.value


def _page(title: str, source: object, *parts: str) -> str:
    path = f"{getattr(source, '__name__', '').replace('.', '/')}.py"
    head = f"# {title}\n\nMade from the table in `{path}` by `make docs`; a test fails when it is stale."
    return "\n\n".join([head, *parts]) + "\n"


def _mermaid(edges: Iterable[Edge], ends: Iterable[str]) -> str:
    """One arrow for each pair of states, with all that takes it."""
    labels: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for edge in edges:
        on = labels[_name(edge.from_), _name(edge.to)]
        if edge.on not in on:
            on.append(edge.on)
    arrows = [f"    {from_} --> {to}: {', '.join(on)}" for (from_, to), on in labels.items()]
    arrows += [f"    {end} --> {END}" for end in sorted(ends)]
    pending = [f'    state "{PENDING}" as {_name(PENDING)}'] if any(_name(PENDING) in pair for pair in labels) else []
    return "\n".join(["```mermaid", "stateDiagram-v2", *pending, *arrows, "```"])


def _name(state: str) -> str:
    return "running_stop_pending" if state == PENDING else str(state)


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("".join(f"| {cell} " if cell else "| " for cell in line) + "|" for line in lines)
