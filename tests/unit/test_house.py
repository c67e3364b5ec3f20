"""The shape of the code: data flows down one list of folders, and the rules touch nothing but their arguments."""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]

# A module imports only what stands above its own line, or on it. The most exact entry counts.
ORDER = (
    "schemas",
    "streams.limits",
    "topics.catalogue",
    "topics",
    "streams.redaction",
    "streams.repeats",
    "streams.settings",
    "streams.lifecycle",
    "streams.meters",
    "streams.billing",
    "streams.rules",
    "streams.metrics",
    "streams.engine",
    "streams.replay",
    "streams.readmodel",
    "streams.web",
    "streams.startup",
    "streams.worker",
    "streams.app",
    "streams.agents",
    "streams.commands",
    "streams.cli",
    "sim",
    "bench",
)
PACKAGES = {entry.split(".")[0] for entry in ORDER}

# Held tighter than the list says. sim stands in for others' systems: it knows the contract, and of the engine only the
# in-process driver.
ONLY = {
    "sim": {
        "streams.limits",
        "schemas",
        "streams.settings",
        "streams.meters",
        "streams.replay",
        "topics.catalogue",
        "topics",
        "sim",
    },
    "streams.lifecycle": {"streams.limits", "schemas", "streams.lifecycle"},
    "streams.meters": {"schemas", "streams.lifecycle", "streams.meters"},
    "streams.billing": {"streams.limits", "schemas", "streams.lifecycle", "streams.meters", "streams.billing"},
    "streams.rules": {
        "streams.limits",
        "schemas",
        "topics.catalogue",
        "streams.lifecycle",
        "streams.meters",
        "streams.billing",
        "streams.rules",
    },
}

PURE = ("streams.lifecycle", "streams.meters", "streams.billing", "streams.rules")
IMPURE_MODULES = {
    "asyncio",
    "io",
    "logging",
    "multiprocessing",
    "os",
    "pathlib",
    "random",
    "secrets",
    "shutil",
    "socket",
    "subprocess",
    "sys",
    "tempfile",
    "threading",
    "time",
    "uuid",
}
IMPURE_NAMES = {"float", "input", "open", "print"}
CLOCK_READS = {"now", "utcnow", "today"}


def entry_of(module: str) -> str | None:
    fitting = [entry for entry in ORDER if module == entry or module.startswith(f"{entry}.")]
    return max(fitting, key=len, default=None)


def imported_modules(tree: ast.AST, module: str, *, is_package: bool) -> Iterator[tuple[int, str]]:
    """Line and dotted name of each import; `from a import b` counts as `a.b`, which may be a name in `a`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, name.name) for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                package = module.split(".") if is_package else module.split(".")[:-1]
                parents = package[: len(package) - node.level + 1]
                base = ".".join([*parents, base] if base else parents)
            yield from ((node.lineno, f"{base}.{name.name}") for name in node.names)


def import_faults(source: str, module: str, *, is_package: bool = False) -> list[str]:
    own = entry_of(module)
    if own is None:
        return [] if module in PACKAGES else [f"{module} has no place in the list of this test: give it one"]
    faults = []
    for line, name in imported_modules(ast.parse(source), module, is_package=is_package):
        root = name.split(".")[0]
        if root in {"tests", "tools"}:
            faults.append(f"{module}:{line} imports {name}, which users don't get")
        elif root in PACKAGES:
            other = entry_of(name)
            if other is None or ORDER.index(other) > ORDER.index(own):
                faults.append(f"{module}:{line} imports {name}, which does not stand above {own}")
            elif own in ONLY and other not in ONLY[own]:
                faults.append(f"{module}:{line} imports {name}; {own} may import only {sorted(ONLY[own])}")
        elif own in PURE and (root not in sys.stdlib_module_names or root in IMPURE_MODULES):
            faults.append(f"{module}:{line} imports {name}; the pure core has no I/O, no clock and no libraries")
    return faults


def purity_faults(source: str, module: str) -> list[str]:
    faults = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, float | complex):
            faults.append(f"{module}:{node.lineno} has the float {node.value}: money and time are integers")
        elif isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.Div):
            faults.append(f"{module}:{node.lineno} divides with /, which gives a float: use //")
        elif isinstance(node, ast.Name) and node.id in IMPURE_NAMES:
            faults.append(f"{module}:{node.lineno} uses {node.id}")
        elif isinstance(node, ast.Attribute) and node.attr in CLOCK_READS and _is_clock(node.value):
            faults.append(f"{module}:{node.lineno} reads the clock: now is an argument")
        elif isinstance(node, ast.AsyncFunctionDef | ast.Await):
            faults.append(f"{module}:{node.lineno} is asynchronous: the pure core waits for nothing")
    return faults


def _is_clock(node: ast.expr) -> bool:
    return (isinstance(node, ast.Name) and node.id in {"datetime", "date"}) or (
        isinstance(node, ast.Attribute) and node.attr in {"datetime", "date"}
    )


def modules() -> Iterator[tuple[str, Path]]:
    for package in sorted(PACKAGES):
        for path in sorted((ROOT / package).rglob("*.py")):
            yield ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"), path


def pure_modules() -> list[tuple[str, Path]]:
    return [(module, path) for module, path in modules() if entry_of(module) in PURE]


def test_each_folder_imports_only_what_stands_above_it() -> None:
    faults = [
        fault
        for module, path in modules()
        for fault in import_faults(path.read_text(encoding="utf-8"), module, is_package=path.name == "__init__.py")
    ]
    assert faults == []


def test_the_pure_core_has_no_clock_no_float_and_no_io() -> None:
    found = pure_modules()
    assert {entry_of(module) for module, _ in found} == set(PURE)
    assert [fault for module, path in found for fault in purity_faults(path.read_text(encoding="utf-8"), module)] == []


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("schemas.usage", "import topics"),
        ("schemas.usage", "def f():\n    from streams.engine import shard"),
        ("topics.codec", "from streams.rules import rows"),
        ("streams.billing.windows", "from streams.rules.rows import Row"),
        ("streams.billing.windows", "from ..rules import rows"),
        ("streams.rules.tick", "from topics import codec"),
        ("streams.rules.tick", "from streams import settings"),
        ("streams.rules.tick", "import pydantic"),
        ("streams.rules.tick", "import time"),
        ("streams.rules.tick", "from os import environ"),
        ("streams.engine.shard", "from streams.web import views"),
        ("streams.engine.shard", "from tests.support import services"),
        ("sim.fleet", "from streams.rules import rows"),
        ("sim.fleet", "import streams.engine.shard"),
        ("streams.unheard_of", ""),
    ],
)
def test_an_import_out_of_order_is_found(module: str, source: str) -> None:
    assert len(import_faults(source, module)) == 1


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("topics.codec", "from schemas.usage import Usage\nimport pydantic"),
        (
            "streams.rules.tick",
            "from streams import limits\nfrom streams.billing.windows import Window\nimport dataclasses",
        ),
        ("streams.rules.tick", "from . import rows"),
        ("streams.engine.shard", "from streams.rules import rows\nfrom streams.settings import Settings\nimport os"),
        ("sim.fleet", "from topics.catalogue import CATALOGUE\nfrom streams.settings import Settings"),
        ("sim.foresight", "from streams.replay.driver import ShardDriver"),
        ("streams", "import importlib"),
    ],
)
def test_an_import_in_order_is_allowed(module: str, source: str) -> None:
    assert import_faults(source, module) == []


@pytest.mark.parametrize(
    "source",
    [
        "rate = 0.5",
        "x = float(y)",
        "x = y / 60_000",
        "x /= 60_000",
        "def f(x: float) -> None: ...",
        "t = datetime.now(UTC)",
        "t = datetime.datetime.utcnow()",
        "t = date.today()",
        "f = open(name)",
        "print(x)",
        "async def f(): ...",
    ],
)
def test_impure_code_is_found(source: str) -> None:
    assert len(purity_faults(source, "streams.rules.tick")) == 1


@pytest.mark.parametrize("source", ["rate = 5 // 10", "now = event.now", "def f(now: int) -> int:\n    return now"])
def test_pure_code_is_allowed(source: str) -> None:
    assert purity_faults(source, "streams.rules.tick") == []
