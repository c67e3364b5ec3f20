"""Obol's web views, as a program reads them."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any, Final, Protocol

Json = dict[str, Any]

_TIMEOUT_S: Final = 10
_PAGE: Final = 1_000


class Views(Protocol):
    """Whatever answers the contract's paths."""

    def get(self, path: str) -> Json:
        """Give the JSON object at `path`."""


class HttpViews:
    """The views of a running worker at `base`, like `http://127.0.0.1:6066`."""

    def __init__(self, base: str) -> None:
        self.base = base

    def get(self, path: str) -> Json:
        """Give the JSON object at `path`. Raises OSError when it can't be had."""
        request = urllib.request.Request(self.base + path, headers={"Accept": "application/json"})  # noqa: S310 - http only
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:  # noqa: S310 - as above
            body: Json = json.load(answer)
        return body

    def ready(self) -> bool:
        """Whether all of the worker's partitions have their rows."""
        try:
            with urllib.request.urlopen(f"{self.base}/ready", timeout=_TIMEOUT_S) as answer:  # noqa: S310 - http only
                return bool(answer.status == 200)  # noqa: PLR2004 - HTTP's word for it
        except (OSError, urllib.error.URLError):
            return False


def items(views: Views, path: str) -> Iterator[Json]:
    """Every item of a list, page by page."""
    joint = "&" if "?" in path else "?"
    cursor = ""
    while True:
        page = views.get(f"{path}{joint}limit={_PAGE}{cursor}")
        yield from page["items"]
        if page["next"] is None:
            return
        cursor = f"&cursor={page['next']}"
