"""The list of generated documents, writing them, and finding those that are stale."""

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
    """Return the content of each document by its path."""
    generated = {
        "docs/asyncapi.json": _json(asyncapi()),
        "docs/openapi.json": _json(openapi()),
        "grafana-dashboard.json": _json(dashboard()),
        "docs/metrics.md": metrics_page(),
    }
    generated |= diagram_pages()
    return generated | {f"{SCHEMAS}/{name}.json": _json(schema) for name, schema in topic_schemas().items()}


def stale(root: Path = ROOT) -> list[str]:
    """Return the paths of documents that differ, are missing, or belong to a topic that no longer exists."""
    generated = documents()
    found = {str(path.relative_to(root)) for path in (root / SCHEMAS).glob("*.json")}
    differing = [path for path, text in generated.items() if not _is(root / path, text)]
    return sorted(differing) + sorted(found - generated.keys())


def write(root: Path = ROOT) -> list[str]:
    """Write or delete the stale documents. Returns their paths."""
    names = stale(root)
    generated = documents()
    for name in names:
        path = root / name
        if name in generated:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(generated[name], encoding="utf-8")
        else:
            path.unlink()
    return names


def _is(path: Path, text: str) -> bool:
    return path.exists() and path.read_text(encoding="utf-8") == text


def _json(content: Any) -> str:
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"
