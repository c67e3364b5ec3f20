"""The stubs in typings/ against the packages: each name is there, and can be called as its stub says.

mypy's own stubtest wants whole stubs; these hold only what is used.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import textwrap
from typing import TYPE_CHECKING, Any

import pytest

from tools.console import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

TYPINGS = ROOT / "typings"
Function = ast.FunctionDef | ast.AsyncFunctionDef


def faults(source: str, module: Any) -> list[str]:
    """What of a stub's source is not so in its module."""
    return [
        f"{module.__name__}.{fault}"
        for node in ast.parse(source).body
        for fault in ([] if isinstance(node, ast.Import | ast.ImportFrom) else _faults_of(node, module))
    ] + [
        f"{module.__name__}.{name.asname} is not exported"
        for node in ast.parse(source).body
        if isinstance(node, ast.ImportFrom)
        for name in node.names
        if name.asname is not None and not hasattr(module, name.asname)
    ]


def _faults_of(node: ast.stmt, owner: Any) -> Iterator[str]:
    match node:
        case ast.ClassDef(name=name, body=body):
            found = getattr(owner, name, None)
            if isinstance(found, type):
                yield from (f"{name} {fault}" for fault in _faults_of_bases(node, found))
                yield from (f"{name}.{fault}" for inner in body for fault in _faults_of(inner, found))
            else:
                yield f"{name} is no class"
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            found = inspect.getattr_static(owner, name, None)
            if _is_property(node):
                if not has_attribute(owner, name):
                    yield f"{name} is no attribute"
            elif not callable(getattr(found, "__func__", found)):
                yield f"{name} is no function"
            else:
                yield from (f"{name}{fault}" for fault in _faults_of_call(node, getattr(owner, name)))
        case ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]):
            if not name.startswith("_T") and not has_attribute(owner, name):
                yield f"{name} is no attribute"


def _faults_of_bases(node: ast.ClassDef, found: type) -> Iterator[str]:
    parents = {"NamedTuple" if parent is tuple else parent.__name__ for parent in found.__mro__}
    for base in node.bases:
        if isinstance(base, ast.Name) and base.id not in parents:
            yield f"does not inherit from {base.id}"


def _is_property(node: Function) -> bool:
    return any(isinstance(one, ast.Name) and one.id == "property" for one in node.decorator_list)


def has_attribute(owner: Any, name: str) -> bool:
    """Whether it has the attribute, or one of its classes sets it on its instances."""
    if hasattr(owner, name) or not isinstance(owner, type):
        return hasattr(owner, name)
    sets = re.compile(rf"\bself\.{name}\b[^=\n]*(: .*)?= ")
    return any(
        name in vars(parent).get("__annotations__", ()) or sets.search(_source(parent)) for parent in owner.__mro__
    )


def _source(parent: type) -> str:
    try:
        return textwrap.dedent(inspect.getsource(parent))
    except (OSError, TypeError):  # written in C
        return ""


def _faults_of_call(node: Function, found: Any) -> Iterator[str]:
    """What of a stub's parameters the function does not take so."""
    if isinstance(node, ast.AsyncFunctionDef) and not inspect.iscoroutinefunction(found):
        yield " is not asynchronous"
    if isinstance(node, ast.FunctionDef) and inspect.iscoroutinefunction(found):
        yield " is asynchronous"
    parameters = inspect.signature(found).parameters
    kinds = {parameter.kind for parameter in parameters.values()}
    positional = [
        name
        for name, parameter in parameters.items()
        if parameter.kind in {parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD}
    ]
    asked = [argument.arg for argument in (*node.args.posonlyargs, *node.args.args)]
    if inspect.Parameter.VAR_POSITIONAL not in kinds and asked != positional[: len(asked)]:
        yield f" takes {positional}, not {asked} by position"
    for argument in node.args.kwonlyargs:
        taken = parameters.get(argument.arg)
        if taken is None and inspect.Parameter.VAR_KEYWORD not in kinds:
            yield f" takes no {argument.arg}"
    required = {
        name
        for name, parameter in parameters.items()
        if parameter.default is parameter.empty
        and parameter.kind not in {parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD}
    }
    given = {argument.arg for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)}
    if missing := required - given:
        yield f" can't be called without {sorted(missing)}"


STUBS = {".".join(path.relative_to(TYPINGS).with_suffix("").parts): path for path in sorted(TYPINGS.rglob("*.pyi"))}


@pytest.mark.parametrize("stub", STUBS)
def test_a_stub_says_what_its_module_has(stub: str) -> None:
    module = importlib.import_module(stub.removesuffix(".__init__"))
    assert faults(STUBS[stub].read_text(encoding="utf-8"), module) == []


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        ("class Sequel: ...", "Sequel is no class"),
        ("class Parent(dict): ...", "Parent does not inherit from dict"),
        ("class Parent:\n  gone: int", "Parent.gone is no attribute"),
        ("class Parent:\n  @property\n  def gone(self) -> int: ...", "Parent.gone is no attribute"),
        ("class Parent:\n  def gone(self) -> int: ...", "Parent.gone is no function"),
        ("class Parent:\n  async def call(self, a: int) -> int: ...", "Parent.call is not asynchronous"),
        ("class Parent:\n  def wait(self) -> int: ...", "Parent.wait is asynchronous"),
        (
            "class Parent:\n  def call(self, b: int) -> int: ...",
            "Parent.call takes ['self', 'a', 'b'], not ['self', 'b'] by position",
        ),
        ("class Parent:\n  def call(self, a: int, *, c: int) -> int: ...", "Parent.call takes no c"),
        ("class Parent:\n  def call(self) -> int: ...", "Parent.call can't be called without ['a']"),
        ("from x import gone as gone", "gone is not exported"),
    ],
)
def test_what_is_not_so_is_found(source: str, fault: str) -> None:
    assert f"sample.{fault}" in faults(source, Sample)


@pytest.mark.parametrize(
    "source",
    [
        "class Child(Parent): ...",
        "class Parent:\n  kept: int\n  said: int\n  noted: str",
        "class Parent:\n  @property\n  def kept(self) -> int: ...",
        "class Parent:\n  def call(self, a: int) -> int: ...\n  async def wait(self) -> None: ...",
        "class Parent:\n  def call(self, a: int, *, b: int = ...) -> int: ...",
        "from x import Child as Child\nfrom x import unseen",
    ],
)
def test_what_is_so_is_let_pass(source: str) -> None:
    assert faults(source, Sample) == []


class Parent:
    said: int

    def __init__(self) -> None:
        self.kept = 1
        self.noted: str = "x"

    def call(self, a: int, b: int = 2) -> int:
        return a + b + self.kept

    async def wait(self) -> None: ...


class Child(Parent): ...


class Sample:
    """Stands in for a module."""

    Parent = Parent
    Child = Child


Sample.__name__ = "sample"
