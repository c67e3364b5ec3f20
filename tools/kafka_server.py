"""Apache Kafka as a JVM process: one KRaft node, from the jars pinned in kafka/pom.xml."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import shutil
import struct
import subprocess
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from tools.console import ROOT, STATE, ToolError, run
from tools.packages import can_install, install, require
from tools.server import LOOPBACK, Server, exchange

if TYPE_CHECKING:
    from collections.abc import Sequence

_MIN_JAVA = 17
_JAVA_PACKAGE = "default-jre-headless"
_CONFIG = ROOT / "tools" / "kafka"

# ApiVersions (key 18), version 0, correlation id 1, no client id: a request that needs no login or metadata.
_API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, 1, -1)
_RESPONSE_HEAD = struct.Struct(">iih")


class KafkaServer(Server):
    """A broker. Its controller listens on the next port."""

    title: ClassVar[str] = "Kafka broker"
    port_setting: ClassVar[str] = "OBOL_BROKER_PORT"
    address_setting: ClassVar[str] = "KAFKA_BOOTSTRAP_SERVERS"
    neighbouring_ports: ClassVar[int] = 2

    @classmethod
    def address(cls, port: int) -> str:
        """Return `host:port`."""
        return f"{LOOPBACK}:{port}"

    @classmethod
    def answers(cls, port: int) -> bool:
        """Return whether a broker answers an ApiVersions request, which it does once it is unfenced."""
        response = exchange(port, _API_VERSIONS, _RESPONSE_HEAD.size)
        if len(response) < _RESPONSE_HEAD.size:
            return False
        _, correlation_id, error_code = _RESPONSE_HEAD.unpack(response)
        return bool(correlation_id == 1 and error_code == 0)

    @classmethod
    def fetch(cls) -> None:
        """Install Java and download the jars if they are missing."""
        _java()
        _jars()

    def settings(self) -> dict[str, str]:
        """Return the broker settings that depend on the ports."""
        controller = f"{LOOPBACK}:{self.port + 1}"
        return {
            "controller.quorum.voters": f"1@{controller}",
            "listeners": f"PLAINTEXT://{self.address(self.port)},CONTROLLER://{controller}",
            "advertised.listeners": f"PLAINTEXT://{self.address(self.port)}",
        }

    def cluster_id(self) -> str:
        """Return the cluster id with which an empty data folder is formatted."""
        return new_cluster_id()

    def format_arguments(self) -> Sequence[str]:
        """Return additional arguments for formatting an empty data folder."""
        return ()

    def prepare(self) -> Sequence[str]:
        """Download missing jars, write the configuration, and format an empty data folder. Returns the command."""
        java = _java()
        jars = _jars()
        data = self.folder / "data"
        config = self.folder / "server.properties"
        settings = self.settings() | {"log.dirs": str(data)}
        config.write_text(
            "\n".join(
                (
                    (_CONFIG / "server.properties").read_text(encoding="utf-8"),
                    *(f"{name}={value}" for name, value in settings.items()),
                    "",
                )
            ),
            encoding="utf-8",
        )
        base = [java, f"-Dlog4j2.configurationFile={_CONFIG / 'log4j2.properties'}", "-cp", f"{jars}/*"]
        if not (data / "meta.properties").exists():
            format_data = [*base, "kafka.tools.StorageTool", "format", "-c", str(config)]
            format_data.append(f"--cluster-id={self.cluster_id()}")
            run(
                [*format_data, *self.format_arguments()],
                f"{self.title}: formatting its data folder",
                self.folder / "format.log",
            )
        return [base[0], "-Xms256m", "-Xmx512m", *base[1:], "kafka.Kafka", str(config)]


def new_cluster_id() -> str:
    """Return a random cluster id in Kafka's format."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")


def java_home() -> Path:
    """Return the home folder of the Java that runs the broker."""
    return Path(_java()).resolve().parent.parent


def _java_version(java: str) -> int:
    completed = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    found = re.search(r'version "(\d+)', completed.stdout + completed.stderr)
    return int(found[1]) if found else 0


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=str(Path(home) / "bin")) if home else None
    java = java or require("java", _JAVA_PACKAGE)
    if _java_version(java) < _MIN_JAVA and can_install():
        install(_JAVA_PACKAGE)
        java = "/usr/bin/java"
    version = _java_version(java)
    if version < _MIN_JAVA:
        message = f"{java} is Java {version}, but Kafka requires {_MIN_JAVA} or newer: install one, or set JAVA_HOME"
        raise ToolError(message)
    return java


def _jars() -> Path:
    """Return the folder of the broker's jars, downloaded if missing. Its name has the hash of the pom."""
    pom = _CONFIG / "pom.xml"
    folder = STATE / f"kafka-jars-{hashlib.sha256(pom.read_bytes()).hexdigest()[:12]}"
    if folder.exists():
        return folder
    maven = require("mvn", "maven", _JAVA_PACKAGE)
    partial = folder.with_name(f"{folder.name}.{os.getpid()}")
    command = [maven, "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", "-DincludeScope=runtime"]
    run([*command, f"-DoutputDirectory={partial}"], "Maven: downloading Kafka's jars (54 MB)", STATE / "maven.log")
    try:
        partial.rename(folder)
    except OSError:  # another process was faster
        shutil.rmtree(partial)
    return folder
