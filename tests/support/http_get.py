"""GET, as a program on the same machine asks; every answer is one, whatever its status."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any, NamedTuple


class Answer(NamedTuple):
    """What a URL gave."""

    status: int
    headers: Any
    text: str

    @property
    def json(self) -> Any:
        """Its body as JSON."""
        return json.loads(self.text)


def get(url: str, timeout_s: float, **headers: str) -> Answer:
    """GET with a deadline; an error status is an answer too. `Accept_Language` is sent as `Accept-Language`."""
    request = urllib.request.Request(url, headers={k.replace("_", "-"): v for k, v in headers.items()})  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=timeout_s) as answer:  # noqa: S310 - a worker on loopback
            return Answer(answer.status, answer.headers, answer.read().decode())
    except urllib.error.HTTPError as error:
        with error:
            return Answer(error.code, error.headers, error.read().decode())
