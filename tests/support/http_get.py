"""HTTP GET; every response is returned, whatever its status."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any, NamedTuple


class Response(NamedTuple):
    """An HTTP response."""

    status: int
    headers: Any
    text: str

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.text)


def get(url: str, timeout_s: float, **headers: str) -> Response:
    """GET with a deadline; an error status raises nothing. `Accept_Language` is sent as `Accept-Language`."""
    request = urllib.request.Request(url, headers={k.replace("_", "-"): v for k, v in headers.items()})  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=timeout_s) as response:  # noqa: S310 - a worker on loopback
            return Response(response.status, response.headers, response.read().decode())
    except urllib.error.HTTPError as error:
        with error:
            return Response(error.code, error.headers, error.read().decode())
