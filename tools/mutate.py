"""`make mutate`: changes the rules in small ways, one at a time, and reports the changes that no test notices.

mutmut makes the mutants of each function; this module runs them. mutmut's own runner starts pytest for each mutant,
which takes seconds. Here one pytest session collects the tests once, records which tests call which function, and forks
a process for each mutant, which runs those tests, the fastest first. Tables, properties and dataclasses have no
mutants: tests compare them with tables written by hand.
"""

import argparse
import difflib
import functools
import os
import resource
import signal
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType
from typing import Any, Final, NamedTuple

import pytest
from _pytest.runner import runtestprotocol
from mutmut.mutation.file_mutation import mutate_file_contents

from tools.console import ROOT, say

PACKAGES: Final = ("streams.lifecycle.", "streams.billing.", "streams.rules.")
TESTS: Final = (
    "tests/unit/lifecycle",
    "tests/unit/billing",
    "tests/unit/rules",
    "tests/unit/test_meters.py",
    "tests/scenarios/test_scenarios.py",
)
# Hypothesis takes minutes. Of a rule, crashes and batches of one record show no more than a restart before each step.
LEFT_OUT: Final = ("-m", "not hypothesis", "-k", "not crashes and not single")
EQUIVALENT: Final = ROOT / "tests" / "equivalent_mutants.txt"

PROCESSES: Final = 2
NICENESS: Final = 10
MEMORY_BYTES: Final = 4 << 30
LEAST_CPU_S: Final = 10
TIMES_AS_LONG: Final = 5
LEAST_PERCENT: Final = 95

MutantDict = dict[str, Callable[..., Any]]
ORIGINAL: Final = "_mutmut_orig"


class Mutant(NamedTuple):
    """A change of one function: its removed lines with `-`, its added lines with `+`."""

    module: str
    function: str
    name: str
    change: str


MUTANTS: Final[list[Mutant]] = []
VARIANTS: Final[dict[tuple[str, str], MutantDict]] = {}
CALLED: Final[set[tuple[str, str]]] = set()


def wrap_in_trampoline(variants: MutantDict) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return the decorator of a mutated function. A process that tests a mutant replaces the original in `variants`."""

    def wrap(function: Callable[..., Any]) -> Callable[..., Any]:
        key = function.__module__, function.__qualname__
        VARIANTS[key] = variants

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            CALLED.add(key)
            return variants[ORIGINAL](*args, **kwargs)

        return call

    return wrap


class MutatingLoader(SourceFileLoader):
    """Loads a module with the mutants of its functions in it."""

    def get_code(self, fullname: str) -> CodeType | None:
        """Return the code of the module with mutants; no cache file is read or written."""
        path = self.get_filename(fullname)
        mutated = mutate_file_contents(path, self.get_data(path).decode())
        lines, spans = mutated.code.splitlines(), mutated.line_span_by_function_name
        for name in mutated.mutant_names:
            mangled = name.partition("__mutmut_")[0]
            before, after = (
                [line.replace(each, "") for line in lines[spans[each].start - 1 : spans[each].end]]
                for each in (f"{mangled}__mutmut_orig", name)
            )
            function = mangled.removeprefix("x").strip("ǁ").replace("ǁ", ".").removeprefix("_" * ("ǁ" not in mangled))
            MUTANTS.append(Mutant(fullname, function, name, "\n".join(_difference(before, after))))
        text = mutated.code.replace("from mutmut.mutation.trampoline", f"from {__name__}")
        return compile(text, path, "exec", dont_inherit=True)


def _difference(before: Sequence[str], after: Sequence[str]) -> Iterator[str]:
    for line in difflib.ndiff(before, after):
        if line[0] in "-+":
            yield f"{line[0]} {line[1:].strip()}"


class MutatingFinder(MetaPathFinder):
    """Finds the modules of `PACKAGES`."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the module's spec with the mutating loader; None for other modules."""
        spec = PathFinder.find_spec(fullname, path, target) if fullname.startswith(PACKAGES) else None
        if spec is not None and spec.origin is not None:
            spec.loader = MutatingLoader(fullname, spec.origin)
        return spec


class Campaign:
    """A pytest plugin that tests mutants instead of running the tests: every `share`th mutant of the `modules`."""

    def __init__(self, modules: Sequence[str], share: int) -> None:
        self.modules = tuple(modules)
        self.share = share
        self.results: dict[Mutant, str] = {}

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run the tests once, to see that they pass and what they call; then test the mutants."""
        if session.testsfailed:
            raise session.Interrupted("the tests can't be imported")
        at_import = set(CALLED)
        tests_of: dict[tuple[str, str], list[tuple[float, pytest.Item]]] = defaultdict(list)
        for item in session.items:
            CALLED.clear()
            start_s = time.process_time()
            if not _passes(item):
                pytest.exit(f"{item.nodeid} fails without any mutant", 1)
            took_s = time.process_time() - start_s
            for key in CALLED:
                tests_of[key].append((took_s, item))
        # A function that was called while modules were imported, and never since, has had its effect already.
        mutants = [one for one in MUTANTS if one[:2] in tests_of or one[:2] not in at_import]
        chosen = [one for one in mutants if one.module.startswith(self.modules)][:: self.share]
        say(f"{len(session.items)} tests, {len(chosen)} of {len(MUTANTS)} mutants")
        running: dict[int, Mutant] = {}
        for number, mutant in enumerate(chosen, start=1):
            tests = sorted(tests_of[mutant.module, mutant.function], key=lambda test: test[0])
            if not tests:
                self.results[mutant] = "not called"
                continue
            if len(running) == PROCESSES:
                self._wait(running)
            running[_start(mutant, tests)] = mutant
            if number % 100 == 0:
                survived = sum(result == "survived" for result in self.results.values())
                say(f"{number} of {len(chosen)}, {survived} survived")
        while running:
            self._wait(running)
        return True

    def _wait(self, running: dict[int, Mutant]) -> None:
        pid, status = os.wait()
        mutant = running.pop(pid)
        self.results[mutant] = "killed" if status else "survived"
        if not status:
            say(f"{mutant.module}.{mutant.function}\n{mutant.change}\n")


@functools.cache
def _caches() -> list[Callable[[], None]]:
    """Return what clears the caches of Obol's functions, which would hide a mutant behind results of the original."""
    modules = [module for name, module in sys.modules.items() if name.startswith("streams.")]
    values = (value for module in modules for value in vars(module).values())
    return [value.cache_clear for value in values if hasattr(value, "cache_clear")]


def _passes(item: pytest.Item) -> bool:
    for clear in _caches():
        clear()
    return all(report.passed or report.skipped for report in runtestprotocol(item, log=False, nextitem=None))


def _start(mutant: Mutant, tests: Sequence[tuple[float, pytest.Item]]) -> int:
    """Fork a process that ends with 0 if all tests pass with the mutant. A loop without end ends it, too."""
    pid = os.fork()
    if pid:
        return pid
    limit_s = int(time.process_time() + LEAST_CPU_S + TIMES_AS_LONG * sum(took_s for took_s, _ in tests))
    resource.setrlimit(resource.RLIMIT_CPU, (limit_s, limit_s))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    signal.signal(signal.SIGXCPU, signal.SIG_DFL)
    variants = VARIANTS[mutant.module, mutant.function]
    variants[ORIGINAL] = variants[mutant.name]
    try:
        os._exit(0 if all(_passes(item) for _, item in tests) else 1)
    finally:
        os._exit(1)


def equivalent() -> dict[tuple[str, str], str]:
    """Return the mutants that no test can tell from the original, by function and change, with the reason."""
    found = {}
    for block in EQUIVALENT.read_text(encoding="utf-8").split("\n\n"):
        head, *change = [line for line in block.splitlines() if line and not line.startswith("#")] or [""]
        if head:
            function, _, reason = head.partition(": ")
            found[function, "\n".join(change)] = reason
    return found


def report(results: dict[Mutant, str]) -> int:
    """Print the survivors and the score of each module; return the exit code."""
    known = equivalent()
    for mutant, result in results.items():
        if (f"{mutant.module}.{mutant.function}", mutant.change) in known:
            results[mutant] = "equivalent" if result != "killed" else "killed, though listed as equivalent"
    for mutant, result in results.items():
        if result not in {"killed", "equivalent"}:
            print(f"{result}: {mutant.module}.{mutant.function}\n{mutant.change}\n")
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for mutant, result in results.items():
        for name in (mutant.module, "all"):
            counts[name].update([result.partition(",")[0]])
    print(f"{'module':40} {'mutants':>8} {'killed':>8} {'equivalent':>11} {'score':>8}")
    percent = 100.0
    for name in sorted(counts, key=lambda name: (name == "all", name)):
        count = counts[name]
        percent = 100 * count["killed"] / max(1, count.total() - count["equivalent"])
        print(f"{name:40} {count.total():8} {count['killed']:8} {count['equivalent']:11} {percent:7.1f}%")
    return 0 if percent >= LEAST_PERCENT else 1


def main(arguments: Sequence[str]) -> int:
    """Test the mutants of the modules named, or all; returns the exit code: 1 for a score below 95 %."""
    parser = argparse.ArgumentParser(prog="make mutate", description=__doc__)
    parser.add_argument("modules", nargs="*", default=list(PACKAGES), help="such as streams.rules.tick (default: all)")
    parser.add_argument("--share", type=int, default=1, help="test every Nth mutant only")
    options = parser.parse_args(arguments)
    os.environ["OBOL_DEBUG_CHECKS"] = "0"
    os.nice(NICENESS)
    sys.meta_path.insert(0, MutatingFinder())
    campaign = Campaign(options.modules, options.share)
    code = pytest.main(["-qq", "-s", "-p", "no:cacheprovider", *LEFT_OUT, *TESTS], [campaign])
    return int(code) or report(campaign.results)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
