"""Services from docker-compose.kafka.yml, where a Docker engine answers and has, or can pull, the image."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tools.console import ROOT, STATE, ToolError, run, say, wait_until
from tools.server import connects

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_FILE = ROOT / "docker-compose.kafka.yml"
_PROJECT = "obol"
_ENGINE_TIMEOUT_S = 10
_READY_DEADLINE_S = 120


@dataclass(frozen=True)
class ComposeService:
    """One service of the compose file: its name there, and its image with the variable that replaces it."""

    name: str
    image_setting: str
    default_image: str

    @property
    def image(self) -> str:
        """The image that the compose file will use."""
        return os.environ.get(self.image_setting) or self.default_image

    def container(self) -> str | None:
        """Id of the running container of this service, if any."""
        labels = {"com.docker.compose.project": _PROJECT, "com.docker.compose.service": self.name}
        filters = [word for key, value in labels.items() for word in ("--filter", f"label={key}={value}")]
        return _docker("ps", "-q", *filters).strip() or None

    def start(self, port: int, answers: Callable[[int], bool]) -> bool:
        """Start the container and wait until it answers on `port`; false when it ran already."""
        already = self.container() is not None
        if not already and connects(port):
            message = f"port {port} for the container of {self.name} is held by another program"
            raise ToolError(message)
        command = [*_compose(), "up", "-d", self.name]
        run(command, f"Docker: starting {self.name} ({self.image})", STATE / f"docker-{self.name}.log")
        if not wait_until(lambda: answers(port), f"Docker: {self.name} on port {port}", _READY_DEADLINE_S):
            message = f"the container of {self.name} does not answer on port {port}: see docker logs {self.container()}"
            raise ToolError(message)
        return not already

    def stop(self) -> bool:
        """Stop the container, keeping its volume; false when none ran."""
        if self.container() is None:
            return False
        run([*_compose(), "stop", self.name], f"Docker: stopping {self.name}", STATE / f"docker-{self.name}.log")
        return True


def engine_answers() -> bool:
    """Tell whether there is a Docker client and an engine that answers it."""
    return shutil.which("docker") is not None and _docker("info", "--format", "{{.ServerVersion}}").strip() != ""


def image_at_hand(image: str) -> bool:
    """Tell whether the engine has the image, or has it now after a pull."""
    if _docker("image", "inspect", "--format", "{{.Id}}", image):
        return True
    try:
        run(["docker", "pull", image], f"Docker: pulling {image}", STATE / "docker-pull.log")
    except ToolError as error:
        say(f"Docker: {image} can't be pulled ({error})")
        return False
    return True


def usable(service: ComposeService) -> bool:
    """Tell whether the compose file's service can be started on this machine."""
    return engine_answers() and bool(_compose()) and image_at_hand(service.image)


def _compose() -> Sequence[str]:
    """Return the compose command with our file and project; empty when there is no compose here."""
    if _docker("compose", "version"):
        command = ["docker", "compose"]
    elif shutil.which("docker-compose"):
        command = ["docker-compose"]
    else:
        return []
    return [*command, "-f", str(_FILE), "-p", _PROJECT]


def _docker(*arguments: str) -> str:
    """Output of a docker command; empty when it fails, hangs or is not there."""
    try:
        answer = subprocess.run(
            ["docker", *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_ENGINE_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return answer.stdout if answer.returncode == 0 else ""
