"""Which documents there are, and whether what is checked in is what the code says."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tools.console import ROOT
from tools.docs.asyncapi import asyncapi
from tools.docs.diagrams import diagram_pages
from tools.docs.grafana import dashboard
from tools.docs.json_schemas import topic_schemas
from tools.docs.metrics import metrics_page
from tools.docs.openapi import openapi

if TYPE_CHECKING:
    from pathlib import Path

SCHEMAS = "docs/schemas"


def documents() -> dict[str, str]:
    """Every document by its path, as the code makes it now; the same code makes the same bytes."""
    made = {
        "docs/asyncapi.json": _json(asyncapi()),
        "docs/openapi.json": _json(openapi()),
        "grafana-dashboard.json": _json(dashboard()),
        "docs/metrics.md": metrics_page(),
    }
    made |= diagram_pages()
    return made | {f"{SCHEMAS}/{name}.json": _json(schema) for name, schema in topic_schemas().items()}


def stale(root: Path = ROOT) -> list[str]:
    """Paths of documents that differ from what the code makes, are missing, or are of a topic that is no more."""
    made = documents()
    found = {str(path.relative_to(root)) for path in (root / SCHEMAS).glob("*.json")}
    differing = [path for path, text in made.items() if not _is(root / path, text)]
    return sorted(differing) + sorted(found - made.keys())


def write(root: Path = ROOT) -> list[str]:
    """Bring every stale document up to date; their paths."""
    names = stale(root)
    made = documents()
    for name in names:
        path = root / name
        if name in made:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(made[name], encoding="utf-8")
        else:
            path.unlink()
    return names


def _is(path: Path, text: str) -> bool:
    return path.exists() and path.read_text(encoding="utf-8") == text


def _json(content: Any) -> str:
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"
