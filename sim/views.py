"""A client of Obol's web views."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from http import HTTPStatus
from typing import Final, Protocol

from schemas.base import Json

_TIMEOUT_S: Final = 10
_PAGE: Final = 1_000


class Views(Protocol):
    """The web views, or a fake of them."""

    def get(self, path: str) -> Json:
        """Return the JSON object at `path`."""


class HttpViews:
    """The web views of the worker at `base`, such as `http://127.0.0.1:6066`."""

    def __init__(self, base: str) -> None:
        self.base = base

    def get(self, path: str) -> Json:
        """Return the JSON object at `path`. Raises `OSError`."""
        request = urllib.request.Request(self.base + path, headers={"Accept": "application/json"})  # noqa: S310 - http only
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as response:  # noqa: S310 - as above
            body: Json = json.load(response)
        return body

    def ready(self) -> bool:
        """Return whether all of the worker's partitions are restored."""
        try:
            with urllib.request.urlopen(f"{self.base}/ready", timeout=_TIMEOUT_S) as response:  # noqa: S310 - http only
                return bool(response.status == HTTPStatus.OK)
        except (OSError, urllib.error.URLError):
            return False


def items(views: Views, path: str) -> Iterator[Json]:
    """Yield the items of all pages of a list."""
    separator = "&" if "?" in path else "?"
    cursor = ""
    while True:
        page = views.get(f"{path}{separator}limit={_PAGE}{cursor}")
        yield from page["items"]
        if page["next"] is None:
            return
        cursor = f"&cursor={page['next']}"
