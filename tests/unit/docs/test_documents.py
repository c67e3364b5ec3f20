"""The generated documents are up to date, and the dashboard uses existing metrics."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from streams.metrics import Metrics
from streams.metrics.census import Censuses
from tests.unit.metrics.test_metrics import Source
from tests.unit.web.support import FakeCluster
from tools.console import ROOT
from tools.docs.documents import documents, stale, write

if TYPE_CHECKING:
    from pathlib import Path

DASHBOARD: dict[str, Any] = json.loads((ROOT / "grafana-dashboard.json").read_text(encoding="utf-8"))


def test_no_document_is_stale() -> None:
    assert stale() == [], "run `make docs`"


def test_generation_is_deterministic() -> None:
    assert documents() == documents()


def test_stale_documents_are_found_and_written(tmp_path: Path) -> None:
    write(tmp_path)
    assert stale(tmp_path) == []
    (tmp_path / "docs/openapi.json").write_text("{}")
    (tmp_path / "docs/schemas/obol.clock.json").unlink()
    (tmp_path / "docs/schemas/gone.topic.json").write_text("{}")
    expected = ["docs/openapi.json", "docs/schemas/obol.clock.json", "docs/schemas/gone.topic.json"]
    assert stale(tmp_path) == expected
    assert write(tmp_path) == expected
    assert stale(tmp_path) == []
    assert not (tmp_path / "docs/schemas/gone.topic.json").exists()


def known_series() -> set[str]:
    """Return every name that a query may use."""
    source = Source(FakeCluster(partitions=1))
    registry = Metrics(source, Censuses(source), redis_age_s=lambda: None).registry
    suffixes = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count"), "info": ("_info",), "gauge": ("",)}
    return {family.name + suffix for family in registry.collect() for suffix in suffixes[family.type]}


def queries() -> list[str]:
    return [target["expr"] for panel in DASHBOARD["panels"] for target in panel.get("targets", ())]


def test_every_metric_in_the_dashboard_exists() -> None:
    used = {name for query in queries() for name in re.findall(r"\b(?:obol|process)_[a-z_]+", query)}
    assert used <= known_series()


def test_every_obol_metric_is_in_the_dashboard() -> None:
    used = " ".join(queries()) + json.dumps(DASHBOARD["templating"])
    own = {name for name in known_series() if name.startswith("obol_")}
    unused = {name for name in own if name not in used and not name.endswith(("_sum", "_count"))}
    assert unused == set()


def test_labels_in_the_dashboard_exist() -> None:
    page = (ROOT / "docs/metrics.md").read_text(encoding="utf-8")
    labels = {"partition", "job", "instance", "le", *re.findall(r"`([a-z_]+)`(?=[,` |])", page)}
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", ()):
            used = re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]) + re.findall(r"by \((\w+)\)", target["expr"])
            assert set(used) <= labels, target


def test_panels_do_not_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not cells & taken, panel["title"]
        assert place["x"] + place["w"] <= 24
        taken |= cells
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
