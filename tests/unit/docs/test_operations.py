"""`docs/operations.md` names everything that ends a worker."""

from __future__ import annotations

import ast
import re

from streams.engine.fatal import Accident
from tools.console import ROOT

ROW = re.compile(r"\| `([a-z -]+)` \| (\d+) \| (.+) \| (.+) \|")


def test_each_accident_has_a_row_with_its_exit_code() -> None:
    text = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    rows = {name: int(code) for name, code, _, _ in ROW.findall(text)}
    assert rows == {accident.title: accident.code for accident in Accident}


def test_each_accident_can_happen_and_nothing_else_ends_a_worker() -> None:
    """Every accident is named somewhere in the code, and only `fatal.py` ends the process."""
    named: set[str] = set()
    for path in sorted((ROOT / "streams").rglob("*.py")):
        if "cli" in path.parts:
            continue
        is_fatal = path.name == "fatal.py"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Name):
                continue
            if node.value.id == "Accident":
                named.add(node.attr)
            assert is_fatal or (node.value.id, node.attr) != ("os", "_exit"), path
    assert named == set(Accident.__members__)
