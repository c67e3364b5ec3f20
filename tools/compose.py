"""Services from docker-compose.kafka.yml, if a Docker engine is available and has, or can pull, the image."""

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
    """A service of the compose file. `image_setting`: the environment variable that overrides `default_image`."""

    name: str
    image_setting: str
    default_image: str

    @property
    def image(self) -> str:
        """The image that the compose file uses."""
        return os.environ.get(self.image_setting) or self.default_image

    def container(self) -> str | None:
        """Return the id of the service's running container, if any."""
        labels = {"com.docker.compose.project": _PROJECT, "com.docker.compose.service": self.name}
        filters = [word for key, value in labels.items() for word in ("--filter", f"label={key}={value}")]
        return _docker("ps", "-q", *filters).strip() or None

    def start(self, port: int, answers: Callable[[int], bool]) -> bool:
        """Start the container and wait until it answers on `port`. Returns False if it was already running."""
        already = self.container() is not None
        if not already and connects(port):
            message = f"port {port} for the container of {self.name} is in use by another program"
            raise ToolError(message)
        command = [*_compose(), "up", "-d", self.name]
        run(command, f"Docker: starting {self.name} ({self.image})", STATE / f"docker-{self.name}.log")
        if not wait_until(lambda: answers(port), f"Docker: {self.name} on port {port}", _READY_DEADLINE_S):
            message = f"the container of {self.name} does not answer on port {port}: see docker logs {self.container()}"
            raise ToolError(message)
        return not already

    def stop(self) -> bool:
        """Stop the container and keep its volume. Returns False if it was not running."""
        if self.container() is None:
            return False
        run([*_compose(), "stop", self.name], f"Docker: stopping {self.name}", STATE / f"docker-{self.name}.log")
        return True


def engine_answers() -> bool:
    """Return whether there is a Docker client with a working engine."""
    return shutil.which("docker") is not None and _docker("info", "--format", "{{.ServerVersion}}").strip() != ""


def image_available(image: str) -> bool:
    """Return whether the engine has the image. Pulls it if necessary."""
    if _docker("image", "inspect", "--format", "{{.Id}}", image):
        return True
    try:
        run(["docker", "pull", image], f"Docker: pulling {image}", STATE / "docker-pull.log")
    except ToolError as error:
        say(f"Docker: {image} can't be pulled ({error})")
        return False
    return True


def usable(service: ComposeService) -> bool:
    """Return whether the service can be started on this machine."""
    return engine_answers() and bool(_compose()) and image_available(service.image)


def _compose() -> Sequence[str]:
    """Return the compose command with our file and project; empty if compose is not installed."""
    if _docker("compose", "version"):
        command = ["docker", "compose"]
    elif shutil.which("docker-compose"):
        command = ["docker-compose"]
    else:
        return []
    return [*command, "-f", str(_FILE), "-p", _PROJECT]


def _docker(*arguments: str) -> str:
    """Return the output of a docker command; empty if it fails, times out or is not installed."""
    try:
        completed = subprocess.run(
            ["docker", *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_ENGINE_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return completed.stdout if completed.returncode == 0 else ""
