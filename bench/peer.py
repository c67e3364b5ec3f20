"""The Kafka Streams program of `peers/kafka-streams`: its build and its process."""

import hashlib
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.child import ROOT, BenchError, Child, child

_SOURCE: Final = ROOT / "bench" / "peers" / "kafka-streams"
_MIN_JAVA: Final = 17
_HEAP_MB: Final = 512
_REPLICAS_PER_MB: Final = 1_000
"""The JVM would use a quarter of the machine's memory; this much is enough, and makes it no slower."""

_NEEDED: Final = ("java", "javac", "mvn")


def missing() -> str | None:
    """Return what is missing to build and run the program, or None."""
    if absent := [program for program in _NEEDED if shutil.which(program) is None]:
        return f"{' and '.join(absent)} not found: install a JDK ({_MIN_JAVA} or newer) and Maven"
    printed = subprocess.run(["javac", "-version"], capture_output=True, text=True, check=False)
    version = re.search(r"(\d+)", printed.stdout + printed.stderr)
    if version is None or int(version[1]) < _MIN_JAVA:
        return f"{(printed.stdout + printed.stderr).strip()} is too old: install a JDK ({_MIN_JAVA} or newer)"
    return None


@dataclass(frozen=True, slots=True)
class Peer:
    """The compiled program in `folder`."""

    folder: Path

    @contextmanager
    def run(self, log: Path, environment: Mapping[str, str], replicas: int) -> Iterator[Child]:
        """Run it for so many replicas; `environment`: its variables."""
        arguments = (
            f"-Xmx{_HEAP_MB + replicas // _REPLICAS_PER_MB}m",
            "-cp",
            f"{self.folder / 'classes'}:{self.folder / 'jars'}/*",
            "Billing",
        )
        with child(arguments, "the Kafka Streams program", log, environment, program="java") as process:
            yield process


def build() -> Peer:
    """Download its jars and compile it, unless done before. Raises `BenchError`."""
    pom, source = _SOURCE / "pom.xml", _SOURCE / "Billing.java"
    digest = hashlib.sha256(pom.read_bytes() + source.read_bytes()).hexdigest()[:12]
    folder = ROOT / ".obol" / f"kafka-streams-{digest}"
    if not folder.exists():
        partial = folder.with_name(f"{folder.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        jars = partial / "jars"
        _run("mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", f"-DoutputDirectory={jars}")
        _run("javac", "-cp", f"{jars}/*", "-d", str(partial / "classes"), str(source))
        partial.rename(folder)
    return Peer(folder)


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BenchError(f"{' '.join(command)} failed:\n{(done.stdout + done.stderr).strip()}")
